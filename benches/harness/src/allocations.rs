//! Counts the allocations of each thread: a second witness beside the time, which noise cannot touch.
//!
//! The count is per thread, so that a background thread of an engine adds nothing to the row; what an engine allocates outside
//! Rust's allocator is not seen. The price is one addition in thread-local memory per allocation, on every side alike.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    // `const` and without a destructor: reading it neither allocates nor can find it gone.
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, counting allocations and reallocations of the calling thread.
#[derive(Debug)]
pub struct CountingAllocator;

/// Allocations and reallocations of this thread since it started.
pub(crate) fn on_this_thread() -> u64 {
    COUNT.get()
}

fn count_one() {
    COUNT.set(COUNT.get() + 1);
}

#[expect(unsafe_code, reason = "GlobalAlloc is an unsafe trait; every call goes to the system's allocator unchanged")]
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count_one();
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count_one();
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count_one();
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hint::black_box;

    #[test]
    fn counts_this_thread_only() {
        let before = on_this_thread();
        drop(black_box(Box::new(1u8)));
        assert_eq!(on_this_thread() - before, 1);

        let other = std::thread::spawn(|| (0..1000).for_each(|i| drop(black_box(Box::new(i)))));
        let before = on_this_thread();
        other.join().unwrap();
        assert!(on_this_thread() - before < 100);
    }
}
