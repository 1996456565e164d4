//! One journal: torn ends, flipped bits, failed writes and syncs.

use std::{path::Path, sync::Arc};

use super::sim::SimDisk;
use crate::{
    conformance::at,
    disk::Disk,
    event::{HomeEvent, VERSION},
    journal::{self, Journal, Opened, Record, Torn},
    line,
    store::Error,
};

const FILE: &str = "/j.jsonl";

fn record(seq: u64) -> Record<HomeEvent> {
    let text = format!("\"{{\"sum\":\"{seq}\n\u{e9}");
    Record::new(
        seq,
        1,
        at(1),
        HomeEvent::TimerSet {
            id: text,
            at: at(2),
        },
    )
}

fn records(count: u64) -> Vec<Record<HomeEvent>> {
    (1..=count).map(record).collect()
}

/// Lines that were each made durable by themselves.
fn lines(records: &[Record<HomeEvent>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for record in records {
        line::encode(record, record.seq, &mut bytes).unwrap();
    }
    bytes
}

fn scan(bytes: &[u8]) -> Result<Opened<HomeEvent>, Error> {
    let scan = line::scan(bytes, Path::new(FILE), 1)?;
    Ok(Opened {
        records: scan.records,
        torn: scan.torn,
    })
}

fn open(disk: &SimDisk) -> Result<(Journal<HomeEvent>, Opened<HomeEvent>), Error> {
    Journal::open(disk, Path::new(FILE), 1)
}

fn create(disk: &SimDisk) -> Journal<HomeEvent> {
    Journal::create(disk, Path::new(FILE), 1).unwrap()
}

#[test]
fn every_prefix_of_a_journal_is_its_whole_lines() {
    let all = records(4);
    let bytes = lines(&all);
    for end in 0..=bytes.len() {
        let whole = bytes[..end].iter().filter(|byte| **byte == b'\n').count();
        let good = lines(&all[..whole]).len();
        let opened = scan(&bytes[..end]).unwrap();
        assert_eq!(opened.records, all[..whole], "{end}");
        let torn = Torn {
            bytes: (end - good) as u64,
            offset: good as u64,
        };
        assert_eq!(opened.torn, (end > good).then_some(torn), "{end}");
    }
}

/// Every bit of a journal of four lines: in the last line the line is cut, before it the journal is
/// damaged; nowhere does it go unseen.
#[test]
fn every_flipped_bit_is_found() {
    let all = records(4);
    let bytes = lines(&all);
    let last = lines(&all[..3]).len();
    for place in 0..bytes.len() {
        for bit in 0..8 {
            let mut flipped = bytes.clone();
            flipped[place] ^= 1 << bit;
            match scan(&flipped) {
                Ok(opened) => {
                    assert!(
                        place >= last,
                        "byte {place} bit {bit} was taken for a torn end"
                    );
                    assert_eq!(opened.records, all[..3]);
                    assert_eq!(opened.torn.unwrap().offset, last as u64);
                }
                Err(Error::Corrupt { offset, .. }) => {
                    assert!(
                        place < last,
                        "byte {place} bit {bit} was not taken for a torn end"
                    );
                    assert!(offset <= place as u64, "{offset} {place}");
                }
                Err(other) => panic!("{other}"),
            }
        }
    }
}

#[test]
fn a_digit_of_the_checksum_in_the_other_case_is_a_change() {
    let bytes = lines(&records(1));
    let place = bytes[..24]
        .iter()
        .rposition(|byte| (b'a'..=b'f').contains(byte))
        .unwrap();
    let mut upper = bytes;
    upper[place] = upper[place].to_ascii_uppercase();
    assert!(scan(&upper).unwrap().torn.is_some());
}

/// Lines of one commit may reach the disk in any order; those of an earlier one were there before.
#[test]
fn a_torn_commit_is_not_damage() {
    let all = records(5);
    let mut bytes = lines(&all[..2]);
    let offset = bytes.len();
    for record in &all[2..] {
        line::encode(record, 3, &mut bytes).unwrap();
    }
    let mut torn = bytes.clone();
    torn[offset + 30..offset + 90].fill(0);
    let opened = scan(&torn).unwrap();
    assert_eq!(opened.records, all[..2]);
    assert_eq!(opened.torn.unwrap().offset, offset as u64);
    // With one more behind it, that commit had been complete.
    line::encode(&record(6), 6, &mut torn).unwrap();
    assert!(matches!(scan(&torn), Err(Error::Corrupt { offset: at, .. }) if at == offset as u64));
}

#[test]
fn what_does_not_follow_is_damage() {
    let all = records(4);
    for wrong in [vec![1, 3], vec![1, 1], vec![2], vec![1, 2, 4, 3]] {
        let wrong: Vec<_> = wrong.iter().map(|n| all[n - 1].clone()).collect();
        assert!(
            matches!(scan(&lines(&wrong)), Err(Error::Corrupt { .. })),
            "{wrong:?}"
        );
    }
}

#[test]
fn a_newer_version_is_refused_even_where_it_cannot_be_read() {
    let mut newer = record(1);
    newer.v = VERSION + 1;
    let known = scan(&lines(&[newer])).unwrap_err();
    assert!(matches!(known, Error::TooNew { found, known: VERSION, .. } if found == VERSION + 1));
    let unknown = line::encode_object(&serde_json::json!({"v": 7, "seq": "x", "event": {}}));
    let unknown = scan(&unknown.unwrap()).unwrap_err();
    assert!(
        matches!(unknown, Error::TooNew { found: 7, .. }),
        "{unknown}"
    );
    // Of this version, it is damage, and nobody takes it for a torn end once there is more.
    let odd = line::encode_object(&serde_json::json!({"v": 1, "seq": 1, "event": {"type": "odd"}}));
    let bytes = [odd.unwrap(), lines(&[record(2)])].concat();
    assert!(matches!(
        scan(&bytes),
        Err(Error::Corrupt { offset: 0, .. })
    ));
}

#[test]
fn a_torn_end_is_cut_off_and_told() {
    let disk = SimDisk::new(1);
    let bytes = lines(&records(2));
    let whole = lines(&records(1)).len();
    let mut file = disk.create(Path::new(FILE)).unwrap();
    file.write(&bytes[..bytes.len() - 1]).unwrap();
    // One who only reads leaves it.
    let read = journal::read::<HomeEvent>(&disk, Path::new(FILE), 1).unwrap();
    assert_eq!(
        (read.records.len(), read.torn.unwrap().offset),
        (1, whole as u64)
    );
    assert_eq!(disk.used(), bytes.len() - 1);

    let (mut journal, opened) = open(&disk).unwrap();
    assert_eq!(opened.torn.unwrap().offset, whole as u64);
    assert_eq!(disk.used(), whole);
    journal.append(&[record(2)]).unwrap();
    let (_, opened) = open(&disk).unwrap();
    assert_eq!((opened.records, opened.torn), (records(2), None));
}

/// What a process wrote and did not live to sync is read by the next one, which acts on it: it must be
/// durable by then.
#[test]
fn what_was_read_is_durable() {
    for seed in 0..50 {
        let disk = SimDisk::new(seed);
        disk.create(Path::new(FILE))
            .unwrap()
            .write(&lines(&records(3)))
            .unwrap();
        let (_, opened) = open(&disk).unwrap();
        assert_eq!(opened.records.len(), 3);
        disk.crash();
        assert_eq!(open(&disk).unwrap().1.records, opened.records, "{seed}");
    }
}

#[test]
fn a_failed_sync_ends_a_journal() {
    for seed in 0..50 {
        let disk = SimDisk::new(seed);
        let mut journal = create(&disk);
        journal.append(&[record(1)]).unwrap();
        disk.fail_sync(0);
        let failed = journal.append(&[record(2)]);
        assert!(matches!(failed, Err(Error::Ambiguous { .. })), "{failed:?}");
        assert!(journal.poisoned());
        let syncs = disk.syncs();
        for again in [2, 3] {
            let refused = journal.append(&[record(again)]);
            assert!(matches!(refused, Err(Error::Io { .. })), "{refused:?}");
        }
        assert_eq!(disk.syncs(), syncs, "a sync was tried again");
        disk.crash();
        let (_, opened) = open(&disk).unwrap();
        assert!(records(2).starts_with(&opened.records) && !opened.records.is_empty());
    }
}

#[test]
fn on_a_full_disk_nothing_is_written() {
    for spare in [0, 1, 50, 190] {
        let disk = SimDisk::new(spare as u64);
        let mut journal = create(&disk);
        journal.append(&[record(1)]).unwrap();
        let before = disk.used();
        disk.set_capacity(Some(before + spare));
        let full = journal.append(&records(4)[1..]);
        let Err(Error::Io { source, .. }) = full else {
            panic!("{full:?}")
        };
        assert_eq!(source.kind(), std::io::ErrorKind::StorageFull);
        assert_eq!(disk.used(), before, "part of a record was left");
        // Room again: it goes on where it was, and the refused records never come back.
        disk.set_capacity(None);
        let other = Record::new(2, 1, at(9), HomeEvent::TimerCleared { id: "x".to_owned() });
        journal.append(std::slice::from_ref(&other)).unwrap();
        disk.crash();
        assert_eq!(open(&disk).unwrap().1.records, [record(1), other]);
    }
}

#[test]
fn a_full_disk_whose_file_cannot_be_cut_ends_a_journal() {
    let disk = SimDisk::new(1);
    let mut journal = create(&disk);
    journal.append(&[record(1)]).unwrap();
    disk.set_capacity(Some(disk.used() + 10));
    disk.fail_sync(0);
    let failed = journal.append(&[record(2)]);
    assert!(matches!(failed, Err(Error::Ambiguous { .. })), "{failed:?}");
    assert!(journal.poisoned());
}

#[test]
fn short_writes_are_gone_on_with_and_one_sync_is_enough() {
    let disk = SimDisk::new(3);
    disk.write_short();
    let mut journal = create(&disk);
    for count in 0..20 {
        let syncs = disk.syncs();
        journal
            .append(&records(60)[count * 3..count * 3 + 3])
            .unwrap();
        assert_eq!(disk.syncs(), syncs + 1);
    }
    disk.crash();
    assert_eq!(open(&disk).unwrap().1.records, records(60));
}

#[test]
fn numbers_must_follow() {
    let disk = Arc::new(SimDisk::new(1));
    let mut journal = create(&disk);
    for wrong in [
        vec![record(2)],
        vec![record(1), record(3)],
        vec![record(1), record(1)],
    ] {
        let refused = journal.append(&wrong);
        assert!(matches!(refused, Err(Error::Illegal { .. })), "{refused:?}");
    }
    assert_eq!(disk.used(), 0);
    journal.append(&[]).unwrap();
    journal.append(&records(2)).unwrap();
    assert_eq!(journal.next(), 3);
}
