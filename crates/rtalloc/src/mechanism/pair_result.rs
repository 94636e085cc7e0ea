//! What a function that is not inlined returns for a request.

use core::mem::MaybeUninit;
use core::ptr::NonNull;

/// A block, or the reason for a refusal, in two registers. A `Result` of both would be returned in memory, which costs
/// the caller a stack frame.
pub(crate) struct PairResult<E> {
    block: Option<NonNull<u8>>,
    /// Initialised if `block` is `None`.
    error: MaybeUninit<E>,
}

impl<E> From<Result<NonNull<u8>, E>> for PairResult<E> {
    #[inline(always)]
    fn from(answer: Result<NonNull<u8>, E>) -> Self {
        match answer {
            Ok(block) => PairResult { block: Some(block), error: MaybeUninit::uninit() },
            Err(error) => PairResult { block: None, error: MaybeUninit::new(error) },
        }
    }
}

impl<E> From<PairResult<E>> for Result<NonNull<u8>, E> {
    #[inline(always)]
    fn from(PairResult { block, error }: PairResult<E>) -> Self {
        // SAFETY: without a block, the error is initialised.
        block.ok_or_else(|| unsafe { error.assume_init() })
    }
}
