//! Output, arguments and the end of the program, through the debugger (semihosting).

use core::arch::asm;
use core::fmt::{self, Write};

/// A semihosting call; returns its result.
///
/// # Safety
///
/// `argument` must be what the operation expects.
unsafe fn debugger(operation: usize, argument: usize) -> usize {
    let result;
    // SAFETY: the caller passes the argument that the operation expects; the debugger changes only the result's
    // register.
    unsafe {
        #[cfg(target_arch = "arm")]
        asm!("bkpt 0xAB", inout("r0") operation => result, in("r1") argument, options(nostack));
        #[cfg(target_arch = "riscv32")]
        asm!(
            ".option push",
            ".option norvc",
            ".balign 16",
            "slli x0, x0, 0x1f",
            "ebreak",
            "srai x0, x0, 7",
            ".option pop",
            inout("a0") operation => result,
            in("a1") argument,
            options(nostack),
        );
    }
    result
}

/// The program's arguments, with its name.
pub fn argument(line: &mut [u8; 64]) -> &str {
    let mut block = [line.as_mut_ptr().addr(), line.len()];
    // SAFETY: operation 21 writes the arguments to the buffer, and their length to the block.
    let failed = unsafe { debugger(21, block.as_mut_ptr().expose_provenance()) } != 0;
    let len = if failed { 0 } else { block[1] };
    line.get(..len).and_then(|line| str::from_utf8(line).ok()).unwrap_or("").trim_end_matches('\0')
}

/// Prints through the debugger.
pub struct Console;

impl Write for Console {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // The debugger expects a terminating zero.
        for part in text.as_bytes().chunks(63) {
            let mut line = [0_u8; 64];
            line[..part.len()].copy_from_slice(part);
            // SAFETY: operation 4 prints a zero-terminated string, which the buffer holds.
            unsafe { debugger(4, line.as_ptr().expose_provenance()) };
        }
        Ok(())
    }
}

/// Ends the program.
pub fn stop(success: bool) -> ! {
    // SAFETY: operation 24 ends the program; its argument is the reason: application exit or runtime error.
    unsafe { debugger(24, if success { 0x2_0026 } else { 0x2_0023 }) };
    loop {
        core::hint::spin_loop();
    }
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    // A failure to print cannot be reported.
    let _ = writeln!(Console, "{info}");
    stop(false)
}
