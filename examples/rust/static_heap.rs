//! Heaps in statics, built from constants: one for each component, so that none can exhaust another's memory.
//!
//! `cargo run -p rtalloc --features std,allocator-api2 --example static_heap`

use allocator_api2::vec::Vec;
use rtalloc::adapt::{AnySlot, BackoffLock, Global, Local, Locked, Memory};
use rtalloc::contract::SharedError;
use rtalloc::{HalfFit, Tlsf};

/// A heap that is shared under a lock and created on first use. It is not the global allocator, which needs an
/// attribute.
type Shared<H> = Global<Locked<'static, H, BackoffLock>, AnySlot>;

static NETWORK_MEMORY: Memory<{ 16 << 10 }> = Memory::new();
static NETWORK: Shared<Tlsf<'static>> = Global::new(&NETWORK_MEMORY, AnySlot);

static LOG_MEMORY: Memory<{ 4 << 10 }> = Memory::new();
static LOG: Shared<HalfFit<'static>> = Global::new(&LOG_MEMORY, AnySlot);

/// Memory for one owner, which needs no lock.
static CONTROL_MEMORY: Memory<{ 4 << 10 }> = Memory::new();

fn main() -> Result<(), Box<dyn core::error::Error>> {
    // Create it now, where an error can be handled, and not on the first request.
    NETWORK.init()?;
    LOG.init()?;

    // The log fills its own heap only.
    let mut lines = 0;
    let full = loop {
        match LOG.allocate_bytes(100, 8) {
            Ok(_) => lines += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(full, SharedError::Exhausted);
    println!("the log took more than 30 lines: {}, then: {full}", lines > 30);

    let mut packet = Vec::new_in(&NETWORK);
    packet.extend_from_slice(b"unharmed");
    println!("the network is {}", core::str::from_utf8(&packet)?);

    let memory = CONTROL_MEMORY.take().ok_or("the memory is taken")?;
    println!("taken twice: {}", CONTROL_MEMORY.take().is_some());
    let control: Local<'static, Tlsf<'static>> = Local::new(memory, Default::default())?;
    let mut state = Vec::new_in(&control);
    state.resize(100, 0.0_f64);
    println!("states: {}", state.len());
    Ok(())
}
