//! Counting executed instructions by single-stepping this very thread.
//!
//! The processor's trap flag is set right before the call; from then on it traps after every instruction, and the
//! handler of `SIGTRAP`, on a stack of its own, counts the places the program was about to execute, until it is back
//! behind the call with the stack as it was. That counts from the entry's first instruction to its `ret`, both
//! included, the `call` excluded: the definition of METHODOLOGY.md. It costs a microsecond or two per instruction
//! (ten on a virtual machine), a fraction of what a tracing process costs, and changes nothing of what the program does.
//!
//! Three instructions need care:
//! - a `rep` string instruction traps after every repetition at its own address: it counts once. `rep movs` and
//!   `rep stos` are performed by the handler in one go, so that copying a megabyte does not take a second;
//! - after a `syscall` the kernel does not trap before the instruction behind it: the one that got lost is added;
//! - the instruction that follows the one that sets the flag is executed before the first trap: that is the `call`.

/// A function that cannot be stepped through here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StepError {
    /// Another processor or system.
    #[error("instructions can be counted on x86-64 Linux only; leave out `instructions` from --probe")]
    Unsupported,
    /// The system refused the signal stack or handler.
    #[error("the system refused to set up single-stepping (error {errno})")]
    System {
        /// Its reason.
        errno: i32,
    },
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
pub use supported::Stepper;
#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
pub use unsupported::Stepper;

/// Finds out whether the bytes of an instruction are a repeated string operation.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
pub(super) mod decode {
    /// What matters about an instruction.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(in crate::probe) enum Instruction {
        /// `rep movs` or `rep stos`: operand width in bytes, length of the instruction.
        RepeatedCopy { fills: bool, width: u8, length: u8 },
        /// Another repeated string operation.
        Repeated,
        /// `syscall`: two bytes.
        Syscall,
        /// Anything else.
        Other,
    }

    /// Looks at the instruction that starts at `place`.
    ///
    /// # Safety
    ///
    /// A complete instruction stands there.
    pub(in crate::probe) unsafe fn decode(place: *const u8) -> Instruction {
        const REP: u8 = 0xf3;
        const REPNE: u8 = 0xf2;
        let (mut repeats, mut wide, mut narrow, mut address_size) = (None, false, false, false);
        let mut length = 0;
        loop {
            // SAFETY: prefixes are followed by an opcode, so this byte belongs to the instruction.
            let byte = unsafe { place.add(length).read() };
            length += 1;
            match byte {
                REP | REPNE => repeats = Some(byte),
                0x66 => narrow = true,
                0x67 => address_size = true,
                0x40..=0x4f => wide = byte & 8 != 0,
                0x26 | 0x2e | 0x36 | 0x3e | 0x64 | 0x65 => {}
                // SAFETY: 0f is followed by the rest of its opcode.
                0x0f if unsafe { place.add(length).read() } == 0x05 => return Instruction::Syscall,
                0xa4..=0xa7 | 0xaa..=0xaf if repeats.is_some() => {
                    let copies = matches!(byte, 0xa4 | 0xa5 | 0xaa | 0xab);
                    if !copies || repeats != Some(REP) || address_size {
                        return Instruction::Repeated;
                    }
                    let width = match (byte & 1, wide, narrow) {
                        (0, _, _) => 1,
                        (_, true, _) => 8,
                        (_, false, true) => 2,
                        (_, false, false) => 4,
                    };
                    return Instruction::RepeatedCopy { fills: byte >= 0xaa, width, length: length as u8 };
                }
                _ => return Instruction::Other,
            }
        }
    }
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod supported {
    use super::StepError;
    use super::decode::{Instruction, decode};
    use std::arch::asm;
    use std::cell::Cell;
    use std::ffi::{c_int, c_void};
    use std::marker::PhantomData;
    use std::ptr::null_mut;

    const TRAP_FLAG: i64 = 1 << 8;
    const DIRECTION_FLAG: i64 = 1 << 10;

    /// What the handler knows of the call underway.
    #[repr(C)]
    struct State {
        return_address: u64,
        return_stack: u64,
        instructions: u64,
        last: u64,
        /// The address behind a `syscall` that comes next, or 0.
        behind_syscall: u64,
    }

    thread_local! {
        /// The call this thread steps through. A plain cell without destructor: safe to read in a signal handler.
        static UNDERWAY: Cell<*mut State> = const { Cell::new(null_mut()) };
    }

    /// Steps through calls on the thread that made it.
    #[derive(Debug)]
    pub struct Stepper {
        stack: *mut c_void,
        previous_stack: libc::stack_t,
        /// The signal stack belongs to one thread.
        _thread: PhantomData<*mut ()>,
    }

    const STACK_BYTES: usize = 128 << 10;

    impl Stepper {
        /// Prepares this thread. The handler of `SIGTRAP` stays installed for the process.
        ///
        /// # Errors
        ///
        /// [`StepError::System`].
        pub fn new() -> Result<Self, StepError> {
            let refused = || StepError::System { errno: std::io::Error::last_os_error().raw_os_error().unwrap_or(0) };
            // SAFETY: system calls with valid arguments; the mapping is new and becomes this thread's signal stack
            // until `drop`; the handler has the signature SA_SIGINFO asks for.
            unsafe {
                let stack = libc::mmap(
                    null_mut(),
                    STACK_BYTES,
                    libc::PROT_READ | libc::PROT_WRITE,
                    libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                    -1,
                    0,
                );
                if stack == libc::MAP_FAILED {
                    return Err(refused());
                }
                let new = libc::stack_t { ss_sp: stack, ss_flags: 0, ss_size: STACK_BYTES };
                let mut previous_stack: libc::stack_t = std::mem::zeroed();
                if libc::sigaltstack(&new, &mut previous_stack) != 0 {
                    let error = refused();
                    libc::munmap(stack, STACK_BYTES);
                    return Err(error);
                }
                let stepper = Self { stack, previous_stack, _thread: PhantomData };
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = trapped as *const () as usize;
                action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
                let mut traps: libc::sigset_t = std::mem::zeroed();
                libc::sigemptyset(&mut traps);
                libc::sigaddset(&mut traps, libc::SIGTRAP);
                if libc::sigaction(libc::SIGTRAP, &action, null_mut()) != 0
                    || libc::pthread_sigmask(libc::SIG_UNBLOCK, &traps, null_mut()) != 0
                {
                    return Err(refused());
                }
                Ok(stepper)
            }
        }

        /// Calls `entry` with up to five arguments of the C convention and returns what it returned and the
        /// instructions it executed.
        ///
        /// # Safety
        ///
        /// `entry` is a function of the C convention that may be called with these arguments, and returns.
        #[inline(never)]
        pub unsafe fn call(&mut self, entry: *const c_void, arguments: [usize; 5]) -> (usize, u64) {
            let mut state = State { return_address: 0, return_stack: 0, instructions: 0, last: 0, behind_syscall: 0 };
            let state_pointer = &raw mut state;
            UNDERWAY.set(state_pointer);
            let result: usize;
            // SAFETY: the caller vouches for the call. The stack is balanced: what is pushed is popped. The handler
            // writes to `state` alone, through the pointer this block was given.
            unsafe {
                asm!(
                    "lea r11, [rip + 2f]",
                    "mov [r10], r11",
                    "mov [r10 + 8], rsp",
                    "pushfq",
                    "or qword ptr [rsp], 0x100",
                    "popfq",
                    "call rax",
                    "2:",
                    in("r10") state_pointer,
                    inlateout("rax") entry => result,
                    in("rdi") arguments[0],
                    in("rsi") arguments[1],
                    in("rdx") arguments[2],
                    in("rcx") arguments[3],
                    in("r8") arguments[4],
                    clobber_abi("C"),
                );
            }
            UNDERWAY.set(null_mut());
            (result, state.instructions)
        }
    }

    impl Drop for Stepper {
        fn drop(&mut self) {
            // SAFETY: restores what `new` found; nothing runs on the signal stack now.
            unsafe {
                libc::sigaltstack(&self.previous_stack, null_mut());
                libc::munmap(self.stack, STACK_BYTES);
            }
        }
    }

    /// The handler of `SIGTRAP`. It uses nothing but the registers of the interrupted program and [`State`].
    extern "C" fn trapped(_signal: c_int, _information: *mut libc::siginfo_t, context: *mut c_void) {
        let state = UNDERWAY.get();
        if state.is_null() {
            // Not ours: somebody's breakpoint, which ends the program as it would have without us.
            // SAFETY: plain system calls.
            unsafe {
                libc::signal(libc::SIGTRAP, libc::SIG_DFL);
                libc::raise(libc::SIGTRAP);
            }
            return;
        }
        // SAFETY: the kernel passes the interrupted registers; `state` is the live one of `call`.
        let (registers, state) = unsafe { (&mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs, &mut *state) };
        loop {
            let place = registers[libc::REG_RIP as usize] as u64;
            if state.behind_syscall != 0 {
                state.instructions += u64::from(place != state.behind_syscall);
                state.behind_syscall = 0;
            }
            if place == state.return_address && registers[libc::REG_RSP as usize] as u64 == state.return_stack {
                registers[libc::REG_EFL as usize] &= !TRAP_FLAG;
                return;
            }
            // SAFETY: the processor is about to execute the instruction at this place.
            let instruction = unsafe { decode(place as *const u8) };
            let repetition = place == state.last && instruction == Instruction::Repeated;
            state.instructions += u64::from(!repetition);
            state.last = place;
            match instruction {
                Instruction::RepeatedCopy { fills, width, length }
                    if registers[libc::REG_EFL as usize] & DIRECTION_FLAG == 0 =>
                {
                    // SAFETY: the interrupted program is about to do the same.
                    unsafe { repeat(registers, fills, width) };
                    registers[libc::REG_RIP as usize] = (place + u64::from(length)) as i64;
                    // The place behind has not trapped: look at it now.
                }
                Instruction::Syscall => {
                    state.behind_syscall = place + 2;
                    return;
                }
                Instruction::RepeatedCopy { .. } | Instruction::Repeated | Instruction::Other => return,
            }
        }
    }

    /// Performs a `rep movs` or `rep stos` on the interrupted program's registers.
    ///
    /// # Safety
    ///
    /// The interrupted program is about to perform it.
    unsafe fn repeat(registers: &mut [i64; 23], fills: bool, width: u8) {
        let (mut count, mut source, mut target) =
            (registers[libc::REG_RCX as usize], registers[libc::REG_RSI as usize], registers[libc::REG_RDI as usize]);
        let value = registers[libc::REG_RAX as usize];
        macro_rules! perform {
            ($instruction:literal) => {
                asm!(
                    $instruction,
                    inout("rcx") count,
                    inout("rsi") source,
                    inout("rdi") target,
                    in("rax") value,
                    options(nostack, preserves_flags),
                )
            };
        }
        // SAFETY: the caller's promise: these are the program's own operands.
        unsafe {
            match (fills, width) {
                (false, 1) => perform!("rep movsb"),
                (false, 2) => perform!("rep movsw"),
                (false, 4) => perform!("rep movsd"),
                (false, _) => perform!("rep movsq"),
                (true, 1) => perform!("rep stosb"),
                (true, 2) => perform!("rep stosw"),
                (true, 4) => perform!("rep stosd"),
                (true, _) => perform!("rep stosq"),
            }
        }
        registers[libc::REG_RCX as usize] = count;
        registers[libc::REG_RSI as usize] = source;
        registers[libc::REG_RDI as usize] = target;
    }
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
mod unsupported {
    use super::StepError;
    use std::ffi::c_void;

    /// Single-stepping that this machine does not offer; no value of it exists.
    #[derive(Debug)]
    pub enum Stepper {}

    impl Stepper {
        /// # Errors
        ///
        /// [`StepError::Unsupported`], always.
        pub fn new() -> Result<Self, StepError> {
            Err(StepError::Unsupported)
        }

        /// # Safety
        ///
        /// None: it cannot be called.
        pub unsafe fn call(&mut self, _entry: *const c_void, _arguments: [usize; 5]) -> (usize, u64) {
            match *self {}
        }
    }
}

#[cfg(all(test, target_arch = "x86_64", target_os = "linux"))]
mod tests {
    use super::decode::{Instruction, decode};
    use super::*;
    use std::arch::global_asm;
    use std::ffi::c_void;

    global_asm!(
        // 1 instruction.
        ".globl rtalloc_step_test_return",
        "rtalloc_step_test_return: ret",
        // 2: returns the sum of its arguments.
        ".globl rtalloc_step_test_sum",
        "rtalloc_step_test_sum: lea rax, [rdi + rsi]",
        "ret",
        // 2 + 2n: a loop of n rounds.
        ".globl rtalloc_step_test_loop",
        "rtalloc_step_test_loop: mov rax, rdi",
        "3: dec rdi",
        "jnz 3b",
        "ret",
        // 1 + n: a loop of a single instruction, which traps at one place over and over and is no `rep`.
        ".globl rtalloc_step_test_tight",
        "rtalloc_step_test_tight: mov rcx, rdi",
        "4: loop 4b",
        "ret",
        // 4: fills rsi bytes at rdi.
        ".globl rtalloc_step_test_fill",
        "rtalloc_step_test_fill: mov eax, 0x5a",
        "mov rcx, rsi",
        "rep stosb",
        "ret",
        // 3: copies rdx words from rsi to rdi.
        ".globl rtalloc_step_test_copy",
        "rtalloc_step_test_copy: mov rcx, rdx",
        "rep movsq",
        "ret",
        // 4: looks for the byte dl in the rsi bytes at rdi; two of them are passed before it is found.
        ".globl rtalloc_step_test_scan",
        "rtalloc_step_test_scan: mov rcx, rsi",
        "mov eax, edx",
        "repne scasb",
        "mov rax, rcx",
        "ret",
        // 10: five of its own, two of the sum, two of the inner function, one of what that calls.
        ".globl rtalloc_step_test_nested",
        "rtalloc_step_test_nested: push rdi",
        "call rtalloc_step_test_sum",
        "call 5f",
        "pop rdi",
        "ret",
        "5: call rtalloc_step_test_return",
        "ret",
        // 4: asks the kernel for the process number.
        ".globl rtalloc_step_test_syscall",
        "rtalloc_step_test_syscall: mov eax, 39",
        "syscall",
        "nop",
        "ret",
        // 4: the instruction behind the `syscall` is a `ret`, and two in a row.
        ".globl rtalloc_step_test_syscalls",
        "rtalloc_step_test_syscalls: mov eax, 39",
        "syscall",
        "mov eax, 39",
        "syscall",
        "ret",
    );

    unsafe extern "C" {
        fn rtalloc_step_test_return();
        fn rtalloc_step_test_sum();
        fn rtalloc_step_test_loop();
        fn rtalloc_step_test_tight();
        fn rtalloc_step_test_fill();
        fn rtalloc_step_test_copy();
        fn rtalloc_step_test_scan();
        fn rtalloc_step_test_nested();
        fn rtalloc_step_test_syscall();
        fn rtalloc_step_test_syscalls();
    }

    fn step(entry: unsafe extern "C" fn(), arguments: [usize; 3]) -> (usize, u64) {
        let mut stepper = Stepper::new().expect("single-stepping");
        let [first, second, third] = arguments;
        // SAFETY: the functions above, with the arguments they are made for.
        unsafe { stepper.call(entry as *const c_void, [first, second, third, 0, 0]) }
    }

    #[test]
    fn hand_made_functions_have_the_count_one_reads_off_them() {
        assert_eq!(step(rtalloc_step_test_return, [0; 3]).1, 1);
        assert_eq!(step(rtalloc_step_test_sum, [40, 2, 0]), (42, 2));
        assert_eq!(step(rtalloc_step_test_loop, [1, 0, 0]).1, 2 + 2);
        assert_eq!(step(rtalloc_step_test_loop, [1000, 0, 0]), (1000, 2 + 2000));
        assert_eq!(step(rtalloc_step_test_tight, [100, 0, 0]).1, 2 + 100);
        assert_eq!(step(rtalloc_step_test_nested, [1, 2, 0]).1, 5 + 2 + 2 + 1);
    }

    #[test]
    fn a_repeated_instruction_counts_once_and_does_its_work() {
        let mut bytes = [0_u8; 5000];
        assert_eq!(step(rtalloc_step_test_fill, [bytes.as_mut_ptr() as usize, 4999, 0]).1, 4);
        assert!(bytes[..4999].iter().all(|byte| *byte == 0x5a) && bytes[4999] == 0);

        let words: Vec<u64> = (0..300).collect();
        let mut copied = vec![0_u64; 300];
        let arguments = [copied.as_mut_ptr() as usize, words.as_ptr() as usize, 300];
        assert_eq!(step(rtalloc_step_test_copy, arguments).1, 3);
        assert_eq!(copied, words);

        let text = b"allocator";
        let left = step(rtalloc_step_test_scan, [text.as_ptr() as usize, text.len(), usize::from(b'o')]);
        assert_eq!(left, (text.len() - 4, 5), "found behind four bytes");
        assert_eq!(step(rtalloc_step_test_fill, [bytes.as_mut_ptr() as usize, 0, 0]).1, 4, "no repetition at all");
    }

    #[test]
    fn no_instruction_gets_lost_behind_a_system_call() {
        let process = std::process::id() as usize;
        assert_eq!(step(rtalloc_step_test_syscall, [0; 3]), (process, 4));
        assert_eq!(step(rtalloc_step_test_syscalls, [0; 3]), (process, 5));
    }

    #[test]
    fn repeated_instructions_are_recognised_by_their_bytes() {
        let of = |bytes: &[u8]| {
            // SAFETY: each is a complete instruction.
            unsafe { decode(bytes.as_ptr()) }
        };
        assert_eq!(of(&[0xf3, 0xa4]), Instruction::RepeatedCopy { fills: false, width: 1, length: 2 });
        assert_eq!(of(&[0xf3, 0x48, 0xab]), Instruction::RepeatedCopy { fills: true, width: 8, length: 3 });
        assert_eq!(of(&[0x66, 0xf3, 0xa5]), Instruction::RepeatedCopy { fills: false, width: 2, length: 3 });
        assert_eq!(of(&[0xf3, 0xab]), Instruction::RepeatedCopy { fills: true, width: 4, length: 2 });
        assert_eq!(of(&[0xf2, 0xae]), Instruction::Repeated);
        assert_eq!(of(&[0xf3, 0xc3]), Instruction::Other, "rep ret is a ret");
        assert_eq!(of(&[0xf3, 0x0f, 0x1e, 0xfa]), Instruction::Other, "endbr64");
        assert_eq!(of(&[0x0f, 0x05]), Instruction::Syscall);
        assert_eq!(of(&[0xa4]), Instruction::Other, "movsb alone");
    }
}
