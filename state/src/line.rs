//! One record as one line of text, with a checksum; and the reading of a whole journal, which tells a
//! torn end from damage in the middle. Pure: bytes in, records out.

use std::path::Path;

use jiff::Timestamp;
use ronde_protocol::{Epoch, Seq};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use sha2::{Digest as _, Sha256};

use crate::{
    event::VERSION,
    journal::{Record, Torn},
    store::Error,
};

/// How every line begins. It cannot occur inside a line: a quote within a text is escaped, and no
/// event has a field of this name.
const HEAD: &[u8] = br#"{"sum":""#;
/// Hex digits of the checksum.
const SUM: usize = 16;
/// Where the summed bytes begin: after the quote that ends the checksum.
const BODY: usize = HEAD.len() + SUM + 1;

#[derive(Serialize)]
struct LineOut<'a, E> {
    v: u16,
    seq: Seq,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<Seq>,
    epoch: Epoch,
    at: Timestamp,
    event: &'a E,
}

#[derive(Deserialize)]
struct LineIn<E> {
    v: u16,
    seq: Seq,
    group: Option<Seq>,
    epoch: Epoch,
    at: Timestamp,
    event: E,
}

/// The part of a line that every version has.
#[derive(Deserialize)]
struct AnyLine {
    v: u16,
}

/// Appends a record and its line end to `buf`. `group` is the number of the first record that is made
/// durable in the same step.
pub(crate) fn encode<E: Serialize>(
    record: &Record<E>,
    group: Seq,
    buf: &mut Vec<u8>,
) -> serde_json::Result<()> {
    let start = buf.len();
    buf.extend_from_slice(HEAD);
    buf.extend_from_slice(&[b'0'; SUM]);
    buf.push(b'"');
    let line = LineOut {
        v: record.v,
        seq: record.seq,
        group: (group != record.seq).then_some(group),
        epoch: record.epoch,
        at: record.at,
        event: &record.event,
    };
    if let Err(e) = serde_json::to_writer(&mut *buf, &line) {
        buf.truncate(start);
        return Err(e);
    }
    seal(&mut buf[start..]);
    buf.push(b'\n');
    Ok(())
}

/// A line of its own, for what is not a record: `value` must be an object.
pub(crate) fn encode_object(value: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    let mut buf = [HEAD, &[b'0'; SUM], b"\""].concat();
    serde_json::to_writer(&mut buf, value)?;
    seal(&mut buf);
    buf.push(b'\n');
    Ok(buf)
}

/// Reads what [`encode_object`] has written; none if it is not that.
pub(crate) fn decode_object<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    let line = bytes.strip_suffix(b"\n")?;
    check(line).ok()?;
    serde_json::from_slice(line).ok()
}

/// Joins the head and the object behind it, and sets the checksum.
fn seal(line: &mut [u8]) {
    // The line's own opening brace stands before `"sum"` already.
    line[BODY] = b',';
    let sum = checksum(&line[BODY..]);
    line[HEAD.len()..HEAD.len() + SUM].copy_from_slice(&sum);
}

/// Whether a line is as it was written. Compares bytes: a digit in the other case is a change too.
fn check(line: &[u8]) -> Result<(), &'static str> {
    if line.len() <= BODY || !line.starts_with(HEAD) || line[BODY - 1] != b'"' {
        return Err("the line does not begin like a record");
    }
    if line[HEAD.len()..HEAD.len() + SUM] != checksum(&line[BODY..]) {
        return Err("the checksum does not match");
    }
    Ok(())
}

/// The first 16 hex digits of the SHA-256 of these bytes.
fn checksum(bytes: &[u8]) -> [u8; SUM] {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let digest = Sha256::digest(bytes);
    let mut sum = [0; SUM];
    for (pair, byte) in sum.chunks_exact_mut(2).zip(digest) {
        pair[0] = HEX[usize::from(byte >> 4)];
        pair[1] = HEX[usize::from(byte & 15)];
    }
    sum
}

/// A line that is not a record of this version.
enum Bad {
    /// Not what was written.
    Damaged(String),
    /// Written by a newer program.
    TooNew(u16),
}

struct Line<E> {
    record: Record<E>,
    group: Seq,
}

/// Reads one line, without its line end.
fn decode<E: DeserializeOwned>(line: &[u8]) -> Result<Line<E>, Bad> {
    check(line).map_err(|reason| Bad::Damaged(reason.to_owned()))?;
    match serde_json::from_slice::<LineIn<E>>(line) {
        Ok(line) if line.v > VERSION => Err(Bad::TooNew(line.v)),
        Ok(line) => Ok(Line {
            group: line.group.unwrap_or(line.seq),
            record: Record {
                v: line.v,
                seq: line.seq,
                epoch: line.epoch,
                at: line.at,
                event: line.event,
            },
        }),
        Err(e) => match serde_json::from_slice::<AnyLine>(line) {
            Ok(AnyLine { v }) if v > VERSION => Err(Bad::TooNew(v)),
            _ => Err(Bad::Damaged(e.to_string())),
        },
    }
}

/// What was read.
pub(crate) struct Scan<E> {
    pub(crate) records: Vec<Record<E>>,
    /// The length of the part that is whole, in bytes.
    pub(crate) good: u64,
    pub(crate) torn: Option<Torn>,
}

/// Reads a journal whose first record is number `first`.
///
/// A bad line with nothing valid behind it was being written when the power went: it is torn. So is one
/// with nothing behind it but records of the same commit, since a disk may write pages in any order. A
/// bad line with a record of a later commit behind it had been durable once: that is damage.
pub(crate) fn scan<E: DeserializeOwned>(
    bytes: &[u8],
    file: &Path,
    first: Seq,
) -> Result<Scan<E>, Error> {
    let corrupt = |offset: usize, reason: String| Error::Corrupt {
        file: file.to_owned(),
        offset: offset as u64,
        reason,
    };
    let mut records = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let next = first + records.len() as Seq;
        let read = match line_end(bytes, at) {
            Some(end) => decode::<E>(&bytes[at..end]).map(|line| (line, end)),
            None => Err(Bad::Damaged("the line has no end".to_owned())),
        };
        match read {
            Ok((line, end)) => {
                if line.record.seq != next {
                    let reason = format!("record {} stands where {next} belongs", line.record.seq);
                    return Err(corrupt(at, reason));
                }
                records.push(line.record);
                at = end + 1;
            }
            Err(Bad::TooNew(found)) => {
                return Err(Error::TooNew {
                    file: file.to_owned(),
                    found,
                    known: VERSION,
                });
            }
            Err(Bad::Damaged(reason)) => {
                if later_commit::<E>(bytes, at + 1, next) {
                    return Err(corrupt(at, reason));
                }
                let torn = Torn {
                    bytes: (bytes.len() - at) as u64,
                    offset: at as u64,
                };
                return Ok(Scan {
                    records,
                    good: at as u64,
                    torn: Some(torn),
                });
            }
        }
    }
    Ok(Scan {
        records,
        good: at as u64,
        torn: None,
    })
}

/// Whether a record that was committed after record `bad` begins anywhere from `from` on.
fn later_commit<E: DeserializeOwned>(bytes: &[u8], from: usize, bad: Seq) -> bool {
    let mut from = from;
    while let Some(start) = bytes
        .get(from..)
        .and_then(|rest| rest.windows(HEAD.len()).position(|window| window == HEAD))
        .map(|offset| from + offset)
    {
        let Some(end) = line_end(bytes, start) else {
            return false;
        };
        match decode::<E>(&bytes[start..end]) {
            Ok(line) if line.group > bad => return true,
            Err(Bad::TooNew(_)) => return true,
            _ => from = start + 1,
        }
    }
    false
}

fn line_end(bytes: &[u8], from: usize) -> Option<usize> {
    bytes[from..]
        .iter()
        .position(|byte| *byte == b'\n')
        .map(|offset| from + offset)
}
