//! The verbs of heaps for debugging, each written once for the adapter by itself and for all of them together: `reach` is how one gets at
//! the adapter from the heap.

/// Writes the verbs of an adapter.
macro_rules! debug_verbs {
    (guarded [$($reach:tt)*] $name:ident $opaque:ident) => {
        /// Blocks that are held back now; 0 for NULL.
        ///
        /// # Safety
        #[doc = concat!(" As `", stringify!($opaque), "_malloc`.")]
        ///
        /// # Time
        /// O(1).
        #[unsafe(export_name = concat!("rt_", stringify!($name), "_quarantined"))]
        pub unsafe extern "C" fn quarantined(heap: *const $opaque) -> usize {
            // SAFETY: the caller's promise, here and below.
            unsafe { region::asked::<Heap, _>(heap.cast(), |heap| heap $($reach)*.quarantined()) }.unwrap_or(0)
        }

        /// Gives every block that is held back to the heap; those that were written meanwhile are reported.
        ///
        /// # Errors
        /// RT_ERROR_NULL.
        ///
        /// # Safety
        #[doc = concat!(" As `", stringify!($opaque), "_malloc`.")]
        ///
        /// # Time
        /// O(bytes that are held back).
        #[unsafe(export_name = concat!("rt_", stringify!($name), "_flush"))]
        pub unsafe extern "C" fn flush(heap: *mut $opaque) -> rt_error {
            // SAFETY: as above.
            unsafe { region::asked::<Heap, _>(heap.cast(), |heap| heap.flush()) }.into()
        }
    };
    (traced [$($reach:tt)*] $name:ident $opaque:ident) => {
        /// Stores at `start` and `bytes` where the ring is and how long: what a file needs to hold for `rtalloc recover`. A dump of the
        /// whole region will do as well.
        ///
        /// # Errors
        /// RT_ERROR_NULL.
        ///
        /// # Safety
        #[doc = concat!(" As `", stringify!($opaque), "_malloc`.")]
        ///
        /// # Time
        /// O(1).
        #[unsafe(export_name = concat!("rt_", stringify!($name), "_ring"))]
        pub unsafe extern "C" fn ring(heap: *const $opaque, start: *mut *const c_void, bytes: *mut usize) -> rt_error {
            let (Some(start), Some(bytes)) = (NonNull::new(start), NonNull::new(bytes)) else {
                return rt_error::RT_ERROR_NULL;
            };
            let tell = |ring: &[u8]| {
                // SAFETY: the caller promises that the places are writable.
                unsafe {
                    start.write(ring.as_ptr().cast());
                    bytes.write(ring.len());
                }
            };
            // SAFETY: as above.
            unsafe { region::asked::<Heap, _>(heap.cast(), |heap| tell(heap $($reach)*.ring())) }.into()
        }

        /// Operations and marks recorded so far, those that were overwritten since included; 0 for NULL.
        ///
        /// # Safety
        #[doc = concat!(" As `", stringify!($opaque), "_malloc`.")]
        ///
        /// # Time
        /// O(1).
        #[unsafe(export_name = concat!("rt_", stringify!($name), "_recorded"))]
        pub unsafe extern "C" fn recorded(heap: *const $opaque) -> u64 {
            // SAFETY: as above.
            unsafe { region::asked::<Heap, _>(heap.cast(), |heap| heap $($reach)*.recorded()) }.unwrap_or(0)
        }

        /// Records a number of the program: the tick of a clock, or what it is about to do.
        ///
        /// # Errors
        /// RT_ERROR_NULL.
        ///
        /// # Safety
        #[doc = concat!(" As `", stringify!($opaque), "_malloc`.")]
        ///
        /// # Time
        /// O(1).
        #[unsafe(export_name = concat!("rt_", stringify!($name), "_mark"))]
        pub unsafe extern "C" fn mark(heap: *mut $opaque, number: u32) -> rt_error {
            // SAFETY: as above. A heap is its pointer, which is copied; the caller lets nobody else use it meanwhile.
            unsafe {
                region::asked::<Heap, _>(heap.cast(), |heap| region::copy_of(&*heap $($reach)*).mark(number)).into()
            }
        }
    };
    (failing [$($reach:tt)*] $name:ident $opaque:ident) => {
        /// Says which requests are refused from now on. They are numbered anew, from 1, and none has failed yet.
        ///
        /// # Errors
        /// RT_ERROR_NULL; RT_ERROR_CONFIGURATION where there is no such plan, and nothing changed.
        ///
        /// # Safety
        #[doc = concat!(" As `", stringify!($opaque), "_malloc`.")]
        ///
        /// # Time
        /// O(1).
        #[unsafe(export_name = concat!("rt_", stringify!($name), "_arm"))]
        pub unsafe extern "C" fn arm(heap: *mut $opaque, failures: *const rt_failures) -> rt_error {
            // SAFETY: as above; the plan is NULL or readable.
            let Some(failures) = (unsafe { failures.as_ref() }) else { return rt_error::RT_ERROR_NULL };
            let Some(failures) = failures.plan() else { return rt_error::RT_ERROR_CONFIGURATION };
            // SAFETY: as above.
            unsafe { region::asked::<Heap, _>(heap.cast(), |heap| heap $($reach)*.arm(failures)) }.into()
        }

        /// Requests since the plan was made; 0 for NULL.
        ///
        /// # Safety
        #[doc = concat!(" As `", stringify!($opaque), "_malloc`.")]
        ///
        /// # Time
        /// O(1).
        #[unsafe(export_name = concat!("rt_", stringify!($name), "_requests"))]
        pub unsafe extern "C" fn requests(heap: *const $opaque) -> usize {
            // SAFETY: as above.
            unsafe { region::asked::<Heap, _>(heap.cast(), |heap| heap $($reach)*.requests()) }.unwrap_or(0)
        }

        /// How many of them were refused on purpose; 0 for NULL.
        ///
        /// # Safety
        #[doc = concat!(" As `", stringify!($opaque), "_malloc`.")]
        ///
        /// # Time
        /// O(1).
        #[unsafe(export_name = concat!("rt_", stringify!($name), "_failed"))]
        pub unsafe extern "C" fn failed(heap: *const $opaque) -> usize {
            // SAFETY: as above.
            unsafe { region::asked::<Heap, _>(heap.cast(), |heap| heap $($reach)*.failed()) }.unwrap_or(0)
        }

        /// The number of the last one that was refused on purpose; 0 if none was, and for NULL.
        ///
        /// # Safety
        #[doc = concat!(" As `", stringify!($opaque), "_malloc`.")]
        ///
        /// # Time
        /// O(1).
        #[unsafe(export_name = concat!("rt_", stringify!($name), "_last_failed"))]
        pub unsafe extern "C" fn last_failed(heap: *const $opaque) -> usize {
            // SAFETY: as above.
            let last = unsafe { region::asked::<Heap, _>(heap.cast(), |heap| heap $($reach)*.last_failed()) };
            last.ok().flatten().unwrap_or(0)
        }
    };
    (quota [$($reach:tt)*] $name:ident $opaque:ident) => {
        /// Says which component asks from now on, and stores at `before`, which may be NULL, which one did.
        ///
        /// # Errors
        /// RT_ERROR_NULL; RT_ERROR_OUT_OF_RANGE where there is no such component, and nothing changed.
        ///
        /// # Safety
        #[doc = concat!(" As `", stringify!($opaque), "_malloc`.")]
        ///
        /// # Time
        /// O(1).
        #[unsafe(export_name = concat!("rt_", stringify!($name), "_enter"))]
        pub unsafe extern "C" fn enter(heap: *mut $opaque, component: usize, before: *mut usize) -> rt_error {
            // SAFETY: as above.
            let entered = unsafe { region::asked::<Heap, _>(heap.cast(), |heap| heap $($reach)*.enter(component)) };
            answered(entered.and_then(|old| old.ok_or(rt_error::RT_ERROR_OUT_OF_RANGE)), |old| {
                if let Some(before) = NonNull::new(before) {
                    // SAFETY: the caller promises that the place is writable.
                    unsafe { before.write(old) };
                }
            })
        }

        /// Which component asks; 0 for NULL.
        ///
        /// # Safety
        #[doc = concat!(" As `", stringify!($opaque), "_malloc`.")]
        ///
        /// # Time
        /// O(1).
        #[unsafe(export_name = concat!("rt_", stringify!($name), "_component"))]
        pub unsafe extern "C" fn component(heap: *const $opaque) -> usize {
            // SAFETY: as above.
            unsafe { region::asked::<Heap, _>(heap.cast(), |heap| heap $($reach)*.component()) }.unwrap_or(0)
        }

        /// Sets the limits of a component. Who has more than a new limit allows keeps it, and gets no more.
        ///
        /// # Errors
        /// RT_ERROR_NULL; RT_ERROR_OUT_OF_RANGE where there is no such component.
        ///
        /// # Safety
        #[doc = concat!(" As `", stringify!($opaque), "_malloc`.")]
        ///
        /// # Time
        /// O(1).
        #[unsafe(export_name = concat!("rt_", stringify!($name), "_set_limits"))]
        pub unsafe extern "C" fn set_limits(
            heap: *mut $opaque,
            component: usize,
            limits: *const rt_quota_limits,
        ) -> rt_error {
            // SAFETY: as above; the limits are NULL or readable.
            let Some(&limits) = (unsafe { limits.as_ref() }) else { return rt_error::RT_ERROR_NULL };
            let set = |heap: &mut Heap| heap $($reach)*.set_limits(component, limits.into());
            // SAFETY: as above.
            let set = unsafe { region::asked::<Heap, _>(heap.cast(), set) };
            answered(set.and_then(|set| set.then_some(()).ok_or(rt_error::RT_ERROR_OUT_OF_RANGE)), |()| ())
        }

        /// Stores the limits of a component at `limits`.
        ///
        /// # Errors
        /// RT_ERROR_NULL; RT_ERROR_OUT_OF_RANGE where there is no such component.
        ///
        /// # Safety
        #[doc = concat!(" As `", stringify!($opaque), "_malloc`.")]
        ///
        /// # Time
        /// O(1).
        #[unsafe(export_name = concat!("rt_", stringify!($name), "_limits"))]
        pub unsafe extern "C" fn limits(heap: *const $opaque, component: usize, limits: *mut rt_quota_limits) -> rt_error {
            let Some(place) = NonNull::new(limits) else { return rt_error::RT_ERROR_NULL };
            // SAFETY: as above.
            let found = unsafe { region::asked::<Heap, _>(heap.cast(), |heap| heap $($reach)*.limits(component)) };
            // SAFETY: the caller promises that the place is writable.
            answered(found.and_then(|found| found.ok_or(rt_error::RT_ERROR_OUT_OF_RANGE)), |found| unsafe {
                place.write(found.into());
            })
        }

        /// Stores at `used` what a component has used.
        ///
        /// # Errors
        /// RT_ERROR_NULL; RT_ERROR_OUT_OF_RANGE where there is no such component.
        ///
        /// # Safety
        #[doc = concat!(" As `", stringify!($opaque), "_malloc`.")]
        ///
        /// # Time
        /// O(1).
        #[unsafe(export_name = concat!("rt_", stringify!($name), "_used"))]
        pub unsafe extern "C" fn used(heap: *const $opaque, component: usize, used: *mut rt_quota_use) -> rt_error {
            let Some(place) = NonNull::new(used) else { return rt_error::RT_ERROR_NULL };
            // SAFETY: as above.
            let found = unsafe { region::asked::<Heap, _>(heap.cast(), |heap| heap $($reach)*.used(component)) };
            // SAFETY: the caller promises that the place is writable.
            answered(found.and_then(|found| found.ok_or(rt_error::RT_ERROR_OUT_OF_RANGE)), |found| unsafe {
                place.write(found.into());
            })
        }

        /// Which limit a request went beyond last, and at `component`, which may be NULL, whose; RT_QUOTA_NONE if none ever did, and for
        /// NULL.
        ///
        /// # Safety
        #[doc = concat!(" As `", stringify!($opaque), "_malloc`.")]
        ///
        /// # Time
        /// O(1).
        #[unsafe(export_name = concat!("rt_", stringify!($name), "_last_refusal"))]
        pub unsafe extern "C" fn last_refusal(heap: *const $opaque, component: *mut usize) -> rt_quota_limit {
            // SAFETY: as above.
            let last = unsafe { region::asked::<Heap, _>(heap.cast(), |heap| heap $($reach)*.last_refusal()) };
            let Ok(Some((number, limit))) = last else { return rt_quota_limit::RT_QUOTA_NONE };
            if let Some(place) = NonNull::new(component) {
                // SAFETY: the caller promises that the place is writable.
                unsafe { place.write(number) };
            }
            limit.into()
        }

        /// Begins a period: operations and bytes of all components are counted from 0.
        ///
        /// # Errors
        /// RT_ERROR_NULL.
        ///
        /// # Safety
        #[doc = concat!(" As `", stringify!($opaque), "_malloc`.")]
        ///
        /// # Time
        /// O(components).
        #[unsafe(export_name = concat!("rt_", stringify!($name), "_begin_period"))]
        pub unsafe extern "C" fn begin_period(heap: *mut $opaque) -> rt_error {
            // SAFETY: as above.
            unsafe { region::asked::<Heap, _>(heap.cast(), |heap| heap $($reach)*.begin_period()) }.into()
        }

        /// Says what time it is; begins a period if the last one has lasted as long as the configuration says, and tells whether it did.
        ///
        /// # Safety
        #[doc = concat!(" As `", stringify!($opaque), "_malloc`.")]
        ///
        /// # Time
        /// O(components).
        #[unsafe(export_name = concat!("rt_", stringify!($name), "_tick"))]
        pub unsafe extern "C" fn tick(heap: *mut $opaque, now: u64) -> bool {
            // SAFETY: as above.
            unsafe { region::asked::<Heap, _>(heap.cast(), |heap| heap $($reach)*.tick(now)) }.unwrap_or(false)
        }
    };
}
pub(crate) use debug_verbs;
