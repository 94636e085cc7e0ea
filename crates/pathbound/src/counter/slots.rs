//! Where the rewritten code counts: a few words of every thread, at constant offsets from the FS base.

use super::CounterError;
use std::arch::asm;
use std::cell::UnsafeCell;
use std::mem::offset_of;
use std::sync::OnceLock;

/// The words of a thread. Only rewritten code writes them.
#[repr(C)]
struct Slots {
    /// Instructions counted since the thread began.
    executed: u64,
    /// The program's registers while rewritten code uses them.
    rax: u64,
    rcx: u64,
    rdx: u64,
    flags: u64,
    /// Where a computed jump or call goes.
    target: u64,
    /// Where the copy was entered from, and the stack pointer after the return to there.
    back: u64,
    back_stack: u64,
}

thread_local! {
    static SLOTS: UnsafeCell<Slots> =
        const { UnsafeCell::new(Slots { executed: 0, rax: 0, rcx: 0, rdx: 0, flags: 0, target: 0, back: 0, back_stack: 0 }) };
}

/// Instructions counted in this thread since it began.
#[inline(always)]
pub fn executed() -> u64 {
    // SAFETY: the pointer is to this thread's own word, which is initialised. The read is volatile because rewritten
    // code, which the compiler does not know, writes the word.
    SLOTS.with(|slots| unsafe { (&raw const (*slots.get()).executed).read_volatile() })
}

/// Offsets of the words from the FS base, the same in all threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offsets {
    pub executed: i32,
    pub rax: i32,
    pub rcx: i32,
    pub rdx: i32,
    pub flags: i32,
    pub target: i32,
    pub back: i32,
    pub back_stack: i32,
}

impl Offsets {
    /// Finds the offsets, and verifies them in another thread.
    ///
    /// # Errors
    ///
    /// [`CounterError::ThreadLocal`] if the words of another thread are at another offset: this code was loaded as a
    /// library into a running process.
    pub fn find() -> Result<Self, CounterError> {
        static DISTANCE: OnceLock<Option<i32>> = OnceLock::new();
        let distance = *DISTANCE.get_or_init(|| {
            let (here, there) = (distance(), std::thread::spawn(distance).join().ok()?);
            let room = i64::try_from(size_of::<Slots>()).ok()?;
            (here == there && here.checked_add(room).is_some_and(|end| i32::try_from(end).is_ok()))
                .then(|| i32::try_from(here).ok())?
        });
        let first = distance.ok_or(CounterError::ThreadLocal)?;
        let at = |offset: usize| first + offset as i32;
        Ok(Self {
            executed: at(offset_of!(Slots, executed)),
            rax: at(offset_of!(Slots, rax)),
            rcx: at(offset_of!(Slots, rcx)),
            rdx: at(offset_of!(Slots, rdx)),
            flags: at(offset_of!(Slots, flags)),
            target: at(offset_of!(Slots, target)),
            back: at(offset_of!(Slots, back)),
            back_stack: at(offset_of!(Slots, back_stack)),
        })
    }
}

/// The offset of this thread's words from the FS base.
fn distance() -> i64 {
    let base: u64;
    // SAFETY: by the ABI, the word at the FS base is readable and holds its own address.
    unsafe { asm!("mov {}, fs:[0]", out(reg) base, options(nostack, readonly, preserves_flags)) };
    SLOTS.with(|slots| slots.get() as u64).wrapping_sub(base).cast_signed()
}
