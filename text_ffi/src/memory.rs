//! What happens when memory runs out inside this library. Rust ends the process when an allocation fails, and
//! an allocator must not unwind, so a failed allocation cannot become an error afterwards. Instead a step
//! whose need grows with a client's input reserves its upper bound before it begins: without room the step is
//! refused (Code::Exhausted). The reserve is held, untouched, while the step runs. When the system refuses an
//! allocation, the reserve goes back to the system and the allocation is tried again: the bound then still
//! covers what the step needs. Others of the process, who can report a failure, are refused before that.
//! Limits: other threads may take what was given back; steps without a reserve (a grammar's mask) are not
//! covered. Cost: one allocation that is never touched.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ptr::null_mut;

use crate::{Code, Failure};

/// For what a step needs beside its input's share: one more arena of the C library (64 MiB of addresses) is
/// not counted, because it falls back to single pages.
const FIXED: usize = 4 << 20; // bytes

thread_local! {
    // Without a destructor and without an allocation of their own: an allocator may use them.
    static RESERVE: Cell<(*mut u8, usize)> = const { Cell::new((null_mut(), 0)) };
    static SHORT: Cell<bool> = const { Cell::new(false) };
}

fn layout(size: usize) -> Option<Layout> {
    Layout::from_size_align(size, 16).ok()
}

/// Gives a reserve back to the system; false if there is none.
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

/// The system refused an allocation of this thread: true if there is a reason to ask again.
fn release() -> bool {
    let released = give_back(RESERVE.replace((null_mut(), 0)));
    SHORT.set(SHORT.get() || released);
    released
}

struct Reserving;

// SAFETY: every call goes to System with the caller's own arguments; nothing here unwinds or allocates.
unsafe impl GlobalAlloc for Reserving {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let block = System.alloc(layout);
        if block.is_null() && release() {
            return System.alloc(layout);
        }
        block
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let block = System.alloc_zeroed(layout);
        if block.is_null() && release() {
            return System.alloc_zeroed(layout);
        }
        block
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let grown = System.realloc(block, layout, size);
        if grown.is_null() && release() {
            return System.realloc(block, layout, size); // a failed one leaves the block as it was
        }
        grown
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        System.dealloc(block, layout);
    }
}

#[global_allocator]
static ALLOCATOR: Reserving = Reserving;

/// Ends a reserve with its step, however that ends; then that of the step around it counts again.
struct Held {
    outer: (*mut u8, usize),
}

impl Drop for Held {
    fn drop(&mut self) {
        give_back(RESERVE.replace(self.outer));
    }
}

/// Runs `work` on this thread with a reserve of `FIXED + each * count` bytes, `each` an upper bound of what
/// one byte of its input needs. `what` begins the refusal.
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

/// Whether a step of this thread ran short since then: what failed after that failed for it.
pub fn was_short() -> bool {
    SHORT.get()
}
