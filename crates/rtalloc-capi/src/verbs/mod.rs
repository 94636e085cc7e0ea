//! The functions of C, written once for each kind of heap by a macro.
//!
//! The documentation is that of rtalloc.h (`tests/header.rs` writes it): `rt_HEAP` stands for the name of the heap's
//! type.

mod debug;
mod handle;
mod region;
#[cfg(target_has_atomic = "ptr")]
mod shared;

/// Exports functions that forward to the generic function of the same name: `rt_NAME_VERB(heap, ...)` calls
/// `KIND::VERB::<Heap>(heap, ...)`.
macro_rules! forwarded {
    ($name:ident, $kind:ident: $(
        $(#[$about:meta])*
        fn $verb:ident($heap:ident: $heap_type:ty $(, $argument:ident: $type:ty)* $(,)?) $(-> $result:ty)?;
    )*) => {
        $(
            $(#[$about])*
            #[unsafe(export_name = concat!("rt_", stringify!($name), "_", stringify!($verb)))]
            pub unsafe extern "C" fn $verb($heap: $heap_type $(, $argument: $type)*) $(-> $result)? {
                // SAFETY: the caller keeps the conditions of `# Safety`, and `Heap` is the type that `init` created.
                unsafe { $kind::$verb::<Heap>($heap.cast() $(, $argument)*) }
            }
        )*
    };
}

pub(crate) use debug::debug_verbs;
pub(crate) use forwarded;
pub(crate) use handle::{get_verb, handle_heaps};
pub(crate) use region::{config_of, more_verbs, region_heaps};
#[cfg(target_has_atomic = "ptr")]
pub(crate) use shared::shared_heaps;
