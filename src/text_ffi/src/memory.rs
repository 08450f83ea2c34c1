//! Handling of failed allocations in this library. Rust ends the process when an allocation fails, and an
//! allocator must not unwind, so an error afterwards is impossible. Instead, a step whose memory grows with a
//! client's input first reserves its upper bound; if this fails, the step is refused (Code::Exhausted). The
//! reserve stays untouched during the step. When the system refuses an allocation, the reserve is freed and
//! the allocation is retried, so the bound still covers the step. Other code in the process, which can report
//! failures, is refused memory before that. Limits: other threads may take the freed memory, and steps
//! without a reserve (a grammar's mask) are not covered. Cost: one allocation that is never touched.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ptr::null_mut;

use crate::{Code, Failure};

/// Memory of a step that does not depend on its input. A further arena of the C library (64 MiB of addresses)
/// is not counted because it falls back to single pages.
const FIXED: usize = 4 << 20; // bytes

thread_local! {
    // These cells have no destructor and no allocation, so an allocator may use them.
    static RESERVE: Cell<(*mut u8, usize)> = const { Cell::new((null_mut(), 0)) };
    static SHORT: Cell<bool> = const { Cell::new(false) };
    // Bytes that this thread has allocated and not freed since begin_count().
    static HELD: Cell<isize> = const { Cell::new(0) };
}

fn count(bytes: usize, sign: isize) {
    HELD.set(HELD.get().wrapping_add(sign.wrapping_mul(bytes as isize)));
}

pub fn begin_count() {
    HELD.set(0);
}

/// Bytes that this thread has allocated since begin_count() and still holds.
pub fn held() -> u64 {
    HELD.get().max(0) as u64
}

fn layout(size: usize) -> Option<Layout> {
    Layout::from_size_align(size, 16).ok()
}

/// Returns a reserve to the system; false if there is none.
fn give_back((block, size): (*mut u8, usize)) -> bool {
    match layout(size) {
        Some(layout) if !block.is_null() => {
            // SAFETY: `block` came from System with this layout, and no cell holds it any more.
            unsafe { System.dealloc(block, layout) };
            true
        }
        _ => false,
    }
}

/// Handles a refused allocation of this thread: true if a retry may succeed.
fn release() -> bool {
    let released = give_back(RESERVE.replace((null_mut(), 0)));
    SHORT.set(SHORT.get() || released);
    released
}

struct Reserving;

// SAFETY: every call goes to System with the caller's own arguments; nothing here unwinds or allocates.
unsafe impl GlobalAlloc for Reserving {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 1);
        let block = System.alloc(layout);
        if block.is_null() && release() {
            return System.alloc(layout);
        }
        block
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 1);
        let block = System.alloc_zeroed(layout);
        if block.is_null() && release() {
            return System.alloc_zeroed(layout);
        }
        block
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let grown = System.realloc(block, layout, size);
        count(size, 1);
        count(layout.size(), -1);
        if grown.is_null() && release() {
            return System.realloc(block, layout, size); // on failure the block is unchanged
        }
        grown
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(layout.size(), -1);
        System.dealloc(block, layout);
    }
}

#[global_allocator]
static ALLOCATOR: Reserving = Reserving;

/// Ends a reserve with its step, on every exit path; the enclosing step's reserve then applies again.
struct Held {
    outer: (*mut u8, usize),
}

impl Drop for Held {
    fn drop(&mut self) {
        give_back(RESERVE.replace(self.outer));
    }
}

/// Runs `work` on this thread with a reserve of `FIXED + each * count` bytes; `each` is an upper bound per
/// byte of input. `what` starts the refusal's sentence.
pub fn with_reserve<T>(
    what: &str,
    each: usize,
    count: usize,
    work: impl FnOnce() -> Result<T, Failure>,
) -> Result<T, Failure> {
    let size = each.saturating_mul(count).saturating_add(FIXED);
    // SAFETY: the size is not zero.
    let block = layout(size).map_or(null_mut(), |layout| unsafe { System.alloc(layout) });
    if block.is_null() {
        let text = format!(
            "{what} may need {} MB of memory, which the system does not give; try again when less is in \
             use, or send less",
            size / 1_000_000
        );
        return Err(Failure::new(Code::Exhausted, text));
    }
    let _held = Held { outer: RESERVE.replace((block, size)) };
    work()
}

pub fn forget_shortage() {
    SHORT.set(false);
}

/// True if a step of this thread ran short of memory, which explains a later failure.
pub fn was_short() -> bool {
    SHORT.get()
}
