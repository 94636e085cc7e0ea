//! The functions of adapters for debugging. `reach` is the path from the heap to the adapter, so that the same
//! functions serve a heap with one adapter and the heap with all of them.

/// Exports the functions of an adapter.
macro_rules! debug_verbs {
    (guarded [$($reach:tt)*] $name:ident $opaque:ident) => {
        /// Returns the number of blocks in quarantine; 0 for NULL.
        ///
        /// # Safety
        /// As `rt_HEAP_malloc`.
        ///
        /// # Time
        /// O(1).
        #[unsafe(export_name = concat!("rt_", stringify!($name), "_quarantined"))]
        pub unsafe extern "C" fn quarantined(heap: *const $opaque) -> usize {
            // SAFETY: `heap` is NULL or a live heap, and nothing else uses it during the call.
            unsafe { region::with_heap::<Heap, _>(heap.cast(), |heap| heap $($reach)*.quarantined()) }.unwrap_or(0)
        }

        /// Empties the quarantine: frees its blocks, and reports those that were written after their free.
        ///
        /// # Errors
        /// RT_ERROR_NULL.
        ///
        /// # Safety
        /// As `rt_HEAP_malloc`.
        ///
        /// # Time
        /// O(bytes in quarantine).
        #[unsafe(export_name = concat!("rt_", stringify!($name), "_flush"))]
        pub unsafe extern "C" fn flush(heap: *mut $opaque) -> rt_error {
            // SAFETY: `heap` is NULL or a live heap, and nothing else uses it during the call.
            unsafe { region::with_heap::<Heap, _>(heap.cast(), |heap| heap.flush()) }.into()
        }
    };
    (traced [$($reach:tt)*] $name:ident $opaque:ident) => {
        /// Stores the start of the ring at `start` and its length at `bytes`. `rtalloc recover` reads a file of these
        /// bytes, or a dump of the whole region.
        ///
        /// # Errors
        /// RT_ERROR_NULL.
        ///
        /// # Safety
        /// As `rt_HEAP_malloc`.
        ///
        /// # Time
        /// O(1).
        #[unsafe(export_name = concat!("rt_", stringify!($name), "_ring"))]
        pub unsafe extern "C" fn ring(heap: *const $opaque, start: *mut *const c_void, bytes: *mut usize) -> rt_error {
            let (Some(start), Some(bytes)) = (NonNull::new(start), NonNull::new(bytes)) else {
                return rt_error::RT_ERROR_NULL;
            };
            let store = |ring: &[u8]| {
                // SAFETY: `start` and `bytes` are not NULL and therefore writable.
                unsafe {
                    start.write(ring.as_ptr().cast());
                    bytes.write(ring.len());
                }
            };
            // SAFETY: `heap` is NULL or a live heap, and nothing else uses it during the call.
            unsafe { region::with_heap::<Heap, _>(heap.cast(), |heap| store(heap $($reach)*.ring())) }.into()
        }

        /// Returns the number of operations and marks recorded so far, including those since overwritten; 0 for NULL.
        ///
        /// # Safety
        /// As `rt_HEAP_malloc`.
        ///
        /// # Time
        /// O(1).
        #[unsafe(export_name = concat!("rt_", stringify!($name), "_recorded"))]
        pub unsafe extern "C" fn recorded(heap: *const $opaque) -> u64 {
            // SAFETY: `heap` is NULL or a live heap, and nothing else uses it during the call.
            unsafe { region::with_heap::<Heap, _>(heap.cast(), |heap| heap $($reach)*.recorded()) }.unwrap_or(0)
        }

        /// Records a number chosen by the program, such as a clock tick or its next step.
        ///
        /// # Errors
        /// RT_ERROR_NULL.
        ///
        /// # Safety
        /// As `rt_HEAP_malloc`.
        ///
        /// # Time
        /// O(1).
        #[unsafe(export_name = concat!("rt_", stringify!($name), "_mark"))]
        pub unsafe extern "C" fn mark(heap: *mut $opaque, number: u32) -> rt_error {
            // SAFETY: `heap` is NULL or a live heap. The inner heap is one pointer, which is copied; nothing else uses
            // it during the call.
            unsafe {
                region::with_heap::<Heap, _>(heap.cast(), |heap| region::copy_of(&*heap $($reach)*).mark(number)).into()
            }
        }
    };
    (failing [$($reach:tt)*] $name:ident $opaque:ident) => {
        /// Sets the plan of refused requests from now on. Restarts the numbering of requests at 1 and the count of
        /// failures at 0.
        ///
        /// # Errors
        /// RT_ERROR_NULL. RT_ERROR_CONFIGURATION if there is no such plan; nothing is then changed.
        ///
        /// # Safety
        /// As `rt_HEAP_malloc`.
        ///
        /// # Time
        /// O(1).
        #[unsafe(export_name = concat!("rt_", stringify!($name), "_arm"))]
        pub unsafe extern "C" fn arm(heap: *mut $opaque, failures: *const rt_failures) -> rt_error {
            // SAFETY: `failures` is NULL or readable.
            let Some(failures) = (unsafe { failures.as_ref() }) else { return rt_error::RT_ERROR_NULL };
            let Some(failures) = failures.plan() else { return rt_error::RT_ERROR_CONFIGURATION };
            // SAFETY: `heap` is NULL or a live heap, and nothing else uses it during the call.
            unsafe { region::with_heap::<Heap, _>(heap.cast(), |heap| heap $($reach)*.arm(failures)) }.into()
        }

        /// Returns the number of requests since the plan was set; 0 for NULL.
        ///
        /// # Safety
        /// As `rt_HEAP_malloc`.
        ///
        /// # Time
        /// O(1).
        #[unsafe(export_name = concat!("rt_", stringify!($name), "_requests"))]
        pub unsafe extern "C" fn requests(heap: *const $opaque) -> usize {
            // SAFETY: `heap` is NULL or a live heap, and nothing else uses it during the call.
            unsafe { region::with_heap::<Heap, _>(heap.cast(), |heap| heap $($reach)*.requests()) }.unwrap_or(0)
        }

        /// Returns the number of requests since then that were refused on purpose; 0 for NULL.
        ///
        /// # Safety
        /// As `rt_HEAP_malloc`.
        ///
        /// # Time
        /// O(1).
        #[unsafe(export_name = concat!("rt_", stringify!($name), "_failed"))]
        pub unsafe extern "C" fn failed(heap: *const $opaque) -> usize {
            // SAFETY: `heap` is NULL or a live heap, and nothing else uses it during the call.
            unsafe { region::with_heap::<Heap, _>(heap.cast(), |heap| heap $($reach)*.failed()) }.unwrap_or(0)
        }

        /// Returns the number of the last request refused on purpose; 0 if there is none, and for NULL.
        ///
        /// # Safety
        /// As `rt_HEAP_malloc`.
        ///
        /// # Time
        /// O(1).
        #[unsafe(export_name = concat!("rt_", stringify!($name), "_last_failed"))]
        pub unsafe extern "C" fn last_failed(heap: *const $opaque) -> usize {
            // SAFETY: `heap` is NULL or a live heap, and nothing else uses it during the call.
            let last = unsafe { region::with_heap::<Heap, _>(heap.cast(), |heap| heap $($reach)*.last_failed()) };
            last.ok().flatten().unwrap_or(0)
        }
    };
    (quota [$($reach:tt)*] $name:ident $opaque:ident) => {
        /// Selects the component that later requests belong to. Stores the previous one at `before`, which may be NULL.
        ///
        /// # Errors
        /// RT_ERROR_NULL. RT_ERROR_OUT_OF_RANGE if there is no such component; nothing is then changed.
        ///
        /// # Safety
        /// As `rt_HEAP_malloc`.
        ///
        /// # Time
        /// O(1).
        #[unsafe(export_name = concat!("rt_", stringify!($name), "_enter"))]
        pub unsafe extern "C" fn enter(heap: *mut $opaque, component: usize, before: *mut usize) -> rt_error {
            // SAFETY: `heap` is NULL or a live heap, and nothing else uses it during the call.
            let entered = unsafe { region::with_heap::<Heap, _>(heap.cast(), |heap| heap $($reach)*.enter(component)) };
            status_of(entered.and_then(|old| old.ok_or(rt_error::RT_ERROR_OUT_OF_RANGE)), |old| {
                if let Some(before) = NonNull::new(before) {
                    // SAFETY: a place that is not NULL is writable.
                    unsafe { before.write(old) };
                }
            })
        }

        /// Returns the component that requests belong to; 0 for NULL.
        ///
        /// # Safety
        /// As `rt_HEAP_malloc`.
        ///
        /// # Time
        /// O(1).
        #[unsafe(export_name = concat!("rt_", stringify!($name), "_component"))]
        pub unsafe extern "C" fn component(heap: *const $opaque) -> usize {
            // SAFETY: `heap` is NULL or a live heap, and nothing else uses it during the call.
            unsafe { region::with_heap::<Heap, _>(heap.cast(), |heap| heap $($reach)*.component()) }.unwrap_or(0)
        }

        /// Sets the limits of a component. A component that already exceeds a new limit keeps its memory, and gets no
        /// more.
        ///
        /// # Errors
        /// RT_ERROR_NULL. RT_ERROR_OUT_OF_RANGE if there is no such component.
        ///
        /// # Safety
        /// As `rt_HEAP_malloc`.
        ///
        /// # Time
        /// O(1).
        #[unsafe(export_name = concat!("rt_", stringify!($name), "_set_limits"))]
        pub unsafe extern "C" fn set_limits(
            heap: *mut $opaque,
            component: usize,
            limits: *const rt_quota_limits,
        ) -> rt_error {
            // SAFETY: `limits` is NULL or readable.
            let Some(&limits) = (unsafe { limits.as_ref() }) else { return rt_error::RT_ERROR_NULL };
            let set = |heap: &mut Heap| heap $($reach)*.set_limits(component, limits.into());
            // SAFETY: `heap` is NULL or a live heap, and nothing else uses it during the call.
            let set = unsafe { region::with_heap::<Heap, _>(heap.cast(), set) };
            status_of(set.and_then(|set| set.then_some(()).ok_or(rt_error::RT_ERROR_OUT_OF_RANGE)), |()| ())
        }

        /// Stores the limits of a component at `limits`.
        ///
        /// # Errors
        /// RT_ERROR_NULL. RT_ERROR_OUT_OF_RANGE if there is no such component.
        ///
        /// # Safety
        /// As `rt_HEAP_malloc`.
        ///
        /// # Time
        /// O(1).
        #[unsafe(export_name = concat!("rt_", stringify!($name), "_limits"))]
        pub unsafe extern "C" fn limits(heap: *const $opaque, component: usize, limits: *mut rt_quota_limits) -> rt_error {
            let Some(place) = NonNull::new(limits) else { return rt_error::RT_ERROR_NULL };
            // SAFETY: `heap` is NULL or a live heap, and nothing else uses it during the call.
            let found = unsafe { region::with_heap::<Heap, _>(heap.cast(), |heap| heap $($reach)*.limits(component)) };
            // SAFETY: a place that is not NULL is writable.
            status_of(found.and_then(|found| found.ok_or(rt_error::RT_ERROR_OUT_OF_RANGE)), |found| unsafe {
                place.write(found.into());
            })
        }

        /// Stores the usage of a component at `used`.
        ///
        /// # Errors
        /// RT_ERROR_NULL. RT_ERROR_OUT_OF_RANGE if there is no such component.
        ///
        /// # Safety
        /// As `rt_HEAP_malloc`.
        ///
        /// # Time
        /// O(1).
        #[unsafe(export_name = concat!("rt_", stringify!($name), "_used"))]
        pub unsafe extern "C" fn used(heap: *const $opaque, component: usize, used: *mut rt_quota_use) -> rt_error {
            let Some(place) = NonNull::new(used) else { return rt_error::RT_ERROR_NULL };
            // SAFETY: `heap` is NULL or a live heap, and nothing else uses it during the call.
            let found = unsafe { region::with_heap::<Heap, _>(heap.cast(), |heap| heap $($reach)*.used(component)) };
            // SAFETY: a place that is not NULL is writable.
            status_of(found.and_then(|found| found.ok_or(rt_error::RT_ERROR_OUT_OF_RANGE)), |found| unsafe {
                place.write(found.into());
            })
        }

        /// Returns the limit that the last refused request exceeded, and stores its component at `component`, which may
        /// be NULL. RT_QUOTA_NONE if no limit was exceeded yet, and for NULL.
        ///
        /// # Safety
        /// As `rt_HEAP_malloc`.
        ///
        /// # Time
        /// O(1).
        #[unsafe(export_name = concat!("rt_", stringify!($name), "_last_refusal"))]
        pub unsafe extern "C" fn last_refusal(heap: *const $opaque, component: *mut usize) -> rt_quota_limit {
            // SAFETY: `heap` is NULL or a live heap, and nothing else uses it during the call.
            let last = unsafe { region::with_heap::<Heap, _>(heap.cast(), |heap| heap $($reach)*.last_refusal()) };
            let Ok(Some((number, limit))) = last else { return rt_quota_limit::RT_QUOTA_NONE };
            if let Some(place) = NonNull::new(component) {
                // SAFETY: a place that is not NULL is writable.
                unsafe { place.write(number) };
            }
            limit.into()
        }

        /// Starts a period: resets the counts of operations and bytes of all components.
        ///
        /// # Errors
        /// RT_ERROR_NULL.
        ///
        /// # Safety
        /// As `rt_HEAP_malloc`.
        ///
        /// # Time
        /// O(components).
        #[unsafe(export_name = concat!("rt_", stringify!($name), "_begin_period"))]
        pub unsafe extern "C" fn begin_period(heap: *mut $opaque) -> rt_error {
            // SAFETY: `heap` is NULL or a live heap, and nothing else uses it during the call.
            unsafe { region::with_heap::<Heap, _>(heap.cast(), |heap| heap $($reach)*.begin_period()) }.into()
        }

        /// Passes the current time. Starts a period if the last one is as long as configured, and returns whether it
        /// did.
        ///
        /// # Safety
        /// As `rt_HEAP_malloc`.
        ///
        /// # Time
        /// O(components).
        #[unsafe(export_name = concat!("rt_", stringify!($name), "_tick"))]
        pub unsafe extern "C" fn tick(heap: *mut $opaque, now: u64) -> bool {
            // SAFETY: `heap` is NULL or a live heap, and nothing else uses it during the call.
            unsafe { region::with_heap::<Heap, _>(heap.cast(), |heap| heap $($reach)*.tick(now)) }.unwrap_or(false)
        }
    };
}
pub(crate) use debug_verbs;
