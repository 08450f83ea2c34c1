//! The budget of one rendering. Templates are untrusted, and a limit on instructions bounds neither memory
//! nor time: one `s ~ s` doubles a text, and one filter reads all of it. So operators, filters, methods and
//! output first pay for their work, counted in bytes and items touched, and check the memory that the
//! rendering holds. A step is refused when either limit is reached.

use std::cell::Cell;
use std::fmt;

use minijinja::value::ValueKind;
use minijinja::{Error, ErrorKind, Value};

use crate::memory;

/// Max depth of a value that is compared, written or measured. A namespace may contain itself.
pub const MAX_DEPTH: usize = 1000;
/// Cost of a step in addition to the bytes and items that it touches.
const STEP: u64 = 256;

thread_local! {
    static BUDGET: Cell<Budget> = const { Cell::new(Budget { work: u64::MAX, memory: u64::MAX }) };
    static LEFT: Cell<u64> = const { Cell::new(u64::MAX) };
}

/// Limits of one rendering.
#[derive(Clone, Copy)]
pub struct Budget {
    pub work: u64,   // bytes and items touched
    pub memory: u64, // bytes held at once
}

/// Begins a rendering on this thread.
pub fn begin(budget: Budget) {
    BUDGET.set(budget);
    LEFT.set(budget.work);
    memory::begin_count();
}

/// Marks the error of an exceeded limit at any depth of macros.
#[derive(Debug)]
pub struct Exceeded(pub String);

impl fmt::Display for Exceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Exceeded {}

fn exceeded(what: String) -> Error {
    Error::new(ErrorKind::InvalidOperation, what.clone()).with_source(Exceeded(what))
}

pub fn too_deep() -> Error {
    exceeded(format!("a value is nested deeper than {MAX_DEPTH} levels"))
}

/// Pays for a step that touches `size` bytes or items.
pub fn spend(size: u64) -> Result<(), Error> {
    let budget = BUDGET.get();
    if memory::held() > budget.memory {
        return Err(exceeded(format!("more than {} MB of memory", budget.memory >> 20)));
    }
    let cost = size.saturating_add(STEP);
    let left = LEFT.get();
    if cost > left {
        LEFT.set(0);
        return Err(exceeded(format!("more work than {} MB of texts and lists", budget.work >> 20)));
    }
    LEFT.set(left - cost);
    Ok(())
}

/// Pays for a step that makes a text or list of `size` bytes.
pub fn spend_memory(size: u64) -> Result<(), Error> {
    let budget = BUDGET.get();
    if memory::held().saturating_add(size) > budget.memory {
        return Err(exceeded(format!("more than {} MB of memory", budget.memory >> 20)));
    }
    spend(size)
}

/// Bytes of a text or items of a list; 1 for a value without a size.
pub fn extent(value: &Value) -> u64 {
    value.as_str().map(str::len).or_else(|| value.len()).unwrap_or(1) as u64
}

pub fn spend_on(values: &[Value]) -> Result<(), Error> {
    spend(values.iter().map(extent).fold(0, u64::saturating_add))
}

/// Pays for a step that reads values down to their leaves. Values may share parts, so a value that is small
/// in memory may be large when written.
pub fn spend_on_all_of(value: &Value) -> Result<(), Error> {
    fn visit(value: &Value, depth: usize) -> Result<(), Error> {
        spend(extent(value))?;
        if !matches!(value.kind(), ValueKind::Seq | ValueKind::Map | ValueKind::Iterable) {
            return Ok(());
        }
        if depth >= MAX_DEPTH {
            return Err(too_deep());
        }
        let is_map = value.kind() == ValueKind::Map;
        for item in value.try_iter().into_iter().flatten() {
            if is_map {
                visit(&value.get_item(&item)?, depth + 1)?;
            }
            visit(&item, depth + 1)?;
        }
        Ok(())
    }
    visit(value, 0)
}
