//! x
pub(crate) struct Script {
    pub(crate) opaque: Option<&'static str>,
}
impl Script {
    pub(crate) fn runs(&self, _m: impl Fn(&str) -> crate::pattern::Meets) -> crate::pattern::Meets {
        crate::pattern::Meets::No
    }
    pub(crate) fn is_plainly(&self, _m: impl Fn(&str) -> bool) -> bool {
        false
    }
}
pub(crate) fn analyse(_c: &str) -> Script {
    Script { opaque: None }
}
