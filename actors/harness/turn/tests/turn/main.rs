//! Whole turns with the scripted model, real files and real processes: order of the journal, pairing of
//! calls and results, the exact prefix, limits, stops and refusals.

mod order;
mod shell;
mod support;
mod ways_out;
