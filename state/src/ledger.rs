//! The budgets: what is spent, what is set aside for calls under way, and whether one more call fits.
//! Pure. It knows no prices and no clock; a day is part of a scope's name.

use std::collections::{BTreeMap, BTreeSet};

use ronde_protocol::{Amount, CallId, MicroUsd, RunId};
use serde::{Deserialize, Serialize};

use crate::{
    event::{Scope, ScopeLimit},
    pairs,
    store::Reserved,
};

/// Every budget of a home.
///
/// A reservation is granted only where settled plus reserved stays within every limit it was asked
/// against, so the sum passes a limit only where a provider used more than was asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ledger {
    #[serde(with = "pairs")]
    scopes: BTreeMap<Scope, Balance>,
    #[serde(with = "pairs")]
    open: BTreeMap<CallId, Reservation>,
    settled: BTreeSet<CallId>,
}

/// How one budget stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Balance {
    spent: Amount,
    reserved: Amount,
}

/// What is set aside for a call under way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reservation {
    /// What it may use.
    pub amount: Amount,
    /// The budgets it is taken from.
    pub scopes: Vec<Scope>,
}

impl Ledger {
    /// What was used of a budget by calls that are over.
    pub fn spent(&self, scope: &Scope) -> Amount {
        self.balance(scope).spent
    }

    /// What is set aside from a budget for calls under way.
    pub fn reserved(&self, scope: &Scope) -> Amount {
        self.balance(scope).reserved
    }

    /// What is left under all of these limits: a call that asks for no more fits. A currency that none
    /// of them limits has the largest number there is.
    pub fn left(&self, limits: &[ScopeLimit]) -> Amount {
        let mut left = Amount {
            tokens: u64::MAX,
            cost: MicroUsd(u64::MAX),
        };
        for limit in limits {
            let one = self.left_of(limit);
            left.tokens = left.tokens.min(one.tokens);
            left.cost = left.cost.min(one.cost);
        }
        left
    }

    /// The calls under way, by call.
    pub fn open(&self) -> impl Iterator<Item = (&CallId, &Reservation)> {
        self.open.iter()
    }

    /// The calls of a run under way, by call.
    pub fn open_of(&self, run: &RunId) -> impl Iterator<Item = (&CallId, &Reservation)> {
        let prefix = format!("{run}/");
        self.open
            .range(CallId::new(prefix.clone())..)
            .take_while(move |(call, _)| call.as_str().starts_with(&prefix))
    }

    /// Whether a call was ever reserved, as far back as its run has not ended.
    pub fn knows(&self, call: &CallId) -> bool {
        self.open.contains_key(call) || self.settled.contains(call)
    }

    /// What a call has set aside, while it is under way.
    pub fn reservation(&self, call: &CallId) -> Option<&Reservation> {
        self.open.get(call)
    }

    /// Whether a call of this amount would be granted under these limits.
    pub fn decide(&self, call: &CallId, amount: Amount, limits: &[ScopeLimit]) -> Reserved {
        if self.knows(call) {
            return Reserved::Already;
        }
        let left = self.left(limits);
        let tokens = amount.tokens > left.tokens;
        if !tokens && amount.cost <= left.cost {
            return Reserved::Granted;
        }
        // Of the currency that does not hold it, the budget with the least left.
        let tightest = limits
            .iter()
            .min_by_key(|limit| {
                let left = self.left_of(limit);
                if tokens { left.tokens } else { left.cost.0 }
            })
            .expect("without limits everything fits");
        Reserved::Refused {
            limit: tightest.scope.limit(tokens),
            left,
        }
    }

    pub(crate) fn reserve(
        &mut self,
        call: &CallId,
        amount: Amount,
        scopes: &[Scope],
    ) -> Result<(), String> {
        if self.knows(call) {
            return Err(format!("call {call} was reserved before"));
        }
        let unique: BTreeSet<&Scope> = scopes.iter().collect();
        if unique.len() != scopes.len() {
            return Err(format!("call {call} names a budget twice"));
        }
        for scope in scopes {
            let balance = self.scopes.entry(scope.clone()).or_default();
            balance.reserved = balance.reserved.plus(amount);
        }
        self.open.insert(
            call.clone(),
            Reservation {
                amount,
                scopes: scopes.to_vec(),
            },
        );
        Ok(())
    }

    pub(crate) fn settle(&mut self, call: &CallId, used: Amount) -> Result<(), String> {
        let Some(reservation) = self.open.remove(call) else {
            return Err(format!("call {call} is not under way"));
        };
        for scope in &reservation.scopes {
            let balance = self.scopes.entry(scope.clone()).or_default();
            balance.reserved = balance.reserved.minus(reservation.amount);
            balance.spent = balance.spent.plus(used);
        }
        self.settled.insert(call.clone());
        Ok(())
    }

    /// A run has ended and makes no more calls: those that are over need not be remembered.
    pub(crate) fn forget(&mut self, run: &RunId) {
        let prefix = format!("{run}/");
        let mut rest = self.settled.split_off(&CallId::new(prefix.clone()));
        rest.retain(|call| !call.as_str().starts_with(&prefix));
        self.settled.append(&mut rest);
    }

    fn balance(&self, scope: &Scope) -> Balance {
        self.scopes.get(scope).copied().unwrap_or_default()
    }

    fn left_of(&self, limit: &ScopeLimit) -> Amount {
        let balance = self.balance(&limit.scope);
        let taken = balance.spent.plus(balance.reserved);
        Amount {
            tokens: limit
                .tokens
                .map_or(u64::MAX, |most| most.saturating_sub(taken.tokens)),
            cost: limit.cost.map_or(MicroUsd(u64::MAX), |most| {
                MicroUsd(most.0.saturating_sub(taken.cost.0))
            }),
        }
    }
}

/// The run a call belongs to: what stands before the first slash of its id.
pub fn run_of(call: &CallId) -> RunId {
    let text = call.as_str();
    RunId::new(text.split_once('/').map_or(text, |(run, _)| run))
}

#[cfg(test)]
mod tests {
    use ronde_protocol::outcome::Limit;

    use super::*;

    fn amount(tokens: u64, cost: u64) -> Amount {
        Amount {
            tokens,
            cost: MicroUsd(cost),
        }
    }

    fn run() -> Scope {
        Scope::Run { run: "r".into() }
    }

    fn day() -> Scope {
        Scope::ProjectDay {
            project: "p".into(),
            day: "2026-11-01".to_owned(),
        }
    }

    fn limit(scope: Scope, tokens: Option<u64>, cost: Option<u64>) -> ScopeLimit {
        ScopeLimit {
            scope,
            tokens,
            cost: cost.map(MicroUsd),
        }
    }

    #[test]
    fn the_tightest_limit_is_named() {
        let mut ledger = Ledger::default();
        ledger
            .reserve(&"r/1".into(), amount(60, 5), &[run(), day()])
            .expect("new");
        ledger.settle(&"r/1".into(), amount(50, 5)).expect("open");
        ledger
            .reserve(&"r/2".into(), amount(10, 1), &[run()])
            .expect("new");
        // 60 of the run are taken, 50 of the day.
        let table: [(&[ScopeLimit], Amount, Reserved); 7] = [
            (&[], amount(u64::MAX, u64::MAX), Reserved::Granted),
            (
                &[limit(run(), Some(100), None)],
                amount(40, 9),
                Reserved::Granted,
            ),
            (
                &[limit(run(), Some(100), None)],
                amount(41, 9),
                Reserved::Refused {
                    limit: Limit::Tokens,
                    left: amount(40, u64::MAX),
                },
            ),
            (
                &[limit(run(), Some(100), None), limit(day(), Some(80), None)],
                amount(41, 9),
                Reserved::Refused {
                    limit: Limit::DayTokens,
                    left: amount(30, u64::MAX),
                },
            ),
            (
                &[
                    limit(run(), Some(100), Some(6)),
                    limit(day(), Some(1000), Some(100)),
                ],
                amount(1, 1),
                Reserved::Refused {
                    limit: Limit::Cost,
                    left: amount(40, 0),
                },
            ),
            (
                &[limit(day(), Some(1000), Some(6))],
                amount(1, 2),
                Reserved::Refused {
                    limit: Limit::DayCost,
                    left: amount(950, 1),
                },
            ),
            (
                &[limit(run(), Some(10), None)],
                amount(0, 1),
                Reserved::Granted,
            ),
        ];
        for (limits, asked, want) in table {
            assert_eq!(
                ledger.decide(&"r/3".into(), asked, limits),
                want,
                "{limits:?} {asked:?}"
            );
        }
        for before in ["r/1", "r/2"] {
            let again = ledger.decide(&before.into(), amount(1, 1), &[]);
            assert_eq!(again, Reserved::Already, "{before}");
        }
    }

    #[test]
    fn settling_frees_what_was_not_used() {
        let mut ledger = Ledger::default();
        ledger
            .reserve(&"r/1".into(), amount(60, 5), &[run(), day()])
            .expect("new");
        assert_eq!(ledger.reserved(&day()), amount(60, 5));
        ledger.settle(&"r/1".into(), amount(20, 2)).expect("open");
        assert_eq!(ledger.reserved(&day()), Amount::ZERO);
        assert_eq!(ledger.spent(&run()), amount(20, 2));
        assert!(ledger.settle(&"r/1".into(), amount(20, 2)).is_err());
        // More than was reserved is written down as it is.
        ledger
            .reserve(&"r/2".into(), amount(1, 1), &[run()])
            .expect("new");
        ledger.settle(&"r/2".into(), amount(30, 2)).expect("open");
        assert_eq!(ledger.spent(&run()), amount(50, 4));
        assert_eq!(
            ledger.left(&[limit(run(), Some(40), None)]),
            amount(0, u64::MAX)
        );
    }

    #[test]
    fn calls_of_one_run_are_told_from_those_of_a_longer_name() {
        let mut ledger = Ledger::default();
        for call in ["r/1", "r/2", "r-2/1", "r2/1", "q/9"] {
            ledger
                .reserve(&call.into(), amount(1, 1), &[])
                .expect("new");
        }
        let calls: Vec<_> = ledger
            .open_of(&"r".into())
            .map(|(call, _)| call.as_str())
            .collect();
        assert_eq!(calls, ["r/1", "r/2"]);
        for call in ["r/1", "r/2", "r-2/1", "r2/1", "q/9"] {
            ledger.settle(&call.into(), amount(1, 1)).expect("open");
        }
        ledger.forget(&"r".into());
        let known = |call: &str| ledger.knows(&call.into());
        assert!(!known("r/1") && !known("r/2"));
        assert!(known("r-2/1") && known("r2/1") && known("q/9"));
    }
}
