use stats::{max, median};

#[test]
fn the_middle_of_three() {
    assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
}

#[test]
fn the_mean_of_the_two_in_the_middle() {
    assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), Some(2.5));
}

#[test]
fn nothing_has_no_median() {
    assert_eq!(median(&[]), None);
}

#[test]
fn the_largest() {
    assert_eq!(max(&[1.0, 3.0, 2.0]), Some(3.0));
}
