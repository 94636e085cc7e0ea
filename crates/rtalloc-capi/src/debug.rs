//! The configurations and types of heaps for debugging.

use crate::error::is;
use crate::heap::Configured;
use core::mem::MaybeUninit;
use rtalloc::TagConfig;
use rtalloc::adapt::quota::COMPONENTS;
use rtalloc::adapt::{
    FailingConfig, Failures, GuardedConfig, QuotaConfig, QuotaLimit, QuotaLimits, QuotaUse, TracedConfig,
};

/// Number of components of a heap with quotas. They are numbered from 0.
pub const RT_COMPONENTS: usize = 8;
const _: () = assert!(RT_COMPONENTS == COMPONENTS);

/// Default number of blocks in the quarantine of a guarded heap.
pub const RT_QUARANTINE_BLOCKS: usize = 16;

/// The configuration of a guarded heap.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct rt_guarded_tlsf_config {
    /// Number of freed blocks in quarantine: the oldest leaves when another block is freed. RT_QUARANTINE_BLOCKS if the
    /// configuration is NULL. 0 disables the quarantine.
    pub quarantine_blocks: usize,
    /// A number that seals and fences depend on, in addition to addresses and the number of guarded heaps created
    /// before. Any value.
    pub secret: usize,
}

impl<C: Default> Configured<rt_guarded_tlsf_config> for GuardedConfig<C> {
    unsafe fn configured(config: rt_guarded_tlsf_config) -> Option<Self> {
        let rt_guarded_tlsf_config { quarantine_blocks, secret } = config;
        Some(GuardedConfig { heap: C::default(), quarantine_blocks, secret })
    }
}

/// The configuration of a heap with a flight recorder.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct rt_traced_tlsf_config {
    /// Number of operations in the ring. 0 means 256. Each takes four machine words.
    pub records: usize,
    /// Largest region, in bytes, to be added later, as in `rt_heap_config`.
    pub max_region_bytes: usize,
}

/// Number of operations in a ring.
fn records(given: usize) -> usize {
    if given == 0 { TracedConfig::<TagConfig>::default().records } else { given }
}

impl Configured<rt_traced_tlsf_config> for TracedConfig<TagConfig> {
    unsafe fn configured(config: rt_traced_tlsf_config) -> Option<Self> {
        let heap = TagConfig { max_region_bytes: config.max_region_bytes };
        Some(TracedConfig { records: records(config.records), heap })
    }
}

/// Which requests are refused on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum rt_failure_plan {
    /// None.
    RT_FAILURES_NEVER,
    /// The request with this number.
    RT_FAILURES_NTH,
    /// The request with this number and all later requests, as if memory were exhausted for good.
    RT_FAILURES_FROM,
    /// Every request whose number is a multiple of this number.
    RT_FAILURES_EVERY_NTH,
    /// A share of the requests, selected by the seed and the request's number.
    RT_FAILURES_SHARE,
}

/// The requests that a heap refuses on purpose. Requests are numbered from 1.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct rt_failures {
    /// The kind of plan.
    pub plan: MaybeUninit<rt_failure_plan>,
    /// The number in the plan. 0 refuses no request.
    pub number: usize,
    /// For RT_FAILURES_SHARE: the mean number of refusals in 2^32 requests.
    pub chance: u32,
    /// For RT_FAILURES_SHARE: the seed of the selection.
    pub seed: u64,
}

impl rt_failures {
    /// The plan; `None` if the number from C is not a plan.
    pub(crate) fn plan(self) -> Option<Failures> {
        let rt_failures { plan, number, chance, seed } = self;
        let plans = [
            (rt_failure_plan::RT_FAILURES_NEVER, Failures::Never),
            (rt_failure_plan::RT_FAILURES_NTH, Failures::Nth(number)),
            (rt_failure_plan::RT_FAILURES_FROM, Failures::From(number)),
            (rt_failure_plan::RT_FAILURES_EVERY_NTH, Failures::EveryNth(number)),
            (rt_failure_plan::RT_FAILURES_SHARE, Failures::Share { chance, seed }),
        ];
        plans.into_iter().find(|&(known, _)| is(plan, known)).map(|(_, failures)| failures)
    }
}

/// The configuration of a failing heap.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct rt_failing_tlsf_config {
    /// The plan from the start.
    pub failures: rt_failures,
    /// Largest region, in bytes, to be added later, as in `rt_heap_config`.
    pub max_region_bytes: usize,
}

impl Configured<rt_failing_tlsf_config> for FailingConfig<TagConfig> {
    unsafe fn configured(config: rt_failing_tlsf_config) -> Option<Self> {
        let heap = TagConfig { max_region_bytes: config.max_region_bytes };
        Some(FailingConfig { heap, failures: config.failures.plan()? })
    }
}

/// The limits of a component. 0 means unlimited.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct rt_quota_limits {
    /// Live bytes at any time.
    pub live_bytes: usize,
    /// Operations per period.
    pub operations: usize,
    /// Bytes allocated per period, regardless of frees.
    pub bytes: usize,
}

impl From<rt_quota_limits> for QuotaLimits {
    fn from(limits: rt_quota_limits) -> Self {
        let limit = |given| if given == 0 { usize::MAX } else { given };
        let rt_quota_limits { live_bytes, operations, bytes } = limits;
        QuotaLimits { live_bytes: limit(live_bytes), operations: limit(operations), bytes: limit(bytes) }
    }
}

impl From<QuotaLimits> for rt_quota_limits {
    fn from(limits: QuotaLimits) -> Self {
        let given = |limit| if limit == usize::MAX { 0 } else { limit };
        let QuotaLimits { live_bytes, operations, bytes } = limits;
        rt_quota_limits { live_bytes: given(live_bytes), operations: given(operations), bytes: given(bytes) }
    }
}

/// The limit that a request would have exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum rt_quota_limit {
    /// None so far.
    RT_QUOTA_NONE,
    /// `live_bytes` of the block's owner.
    RT_QUOTA_LIVE_BYTES,
    /// `operations` of the requesting component.
    RT_QUOTA_OPERATIONS,
    /// `bytes` of the requesting component.
    RT_QUOTA_BYTES,
}

impl From<QuotaLimit> for rt_quota_limit {
    fn from(limit: QuotaLimit) -> Self {
        match limit {
            QuotaLimit::LiveBytes => rt_quota_limit::RT_QUOTA_LIVE_BYTES,
            QuotaLimit::Operations => rt_quota_limit::RT_QUOTA_OPERATIONS,
            QuotaLimit::Bytes => rt_quota_limit::RT_QUOTA_BYTES,
        }
    }
}

/// The usage of a component.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct rt_quota_use {
    /// Bytes of its live blocks.
    pub live_bytes: usize,
    /// Largest value of `live_bytes` so far.
    pub peak_live_bytes: usize,
    /// Number of its live blocks.
    pub live_blocks: usize,
    /// Operations in this period.
    pub operations: usize,
    /// Bytes allocated in this period.
    pub bytes: usize,
    /// Requests refused because of the limit of live bytes, since the heap was created.
    pub refused_live_bytes: usize,
    /// Requests refused because of the limit of operations.
    pub refused_operations: usize,
    /// Requests refused because of the limit of bytes per period.
    pub refused_bytes: usize,
}

impl From<QuotaUse> for rt_quota_use {
    fn from(used: QuotaUse) -> Self {
        let QuotaUse { live_bytes, peak_live_bytes, live_blocks, operations, bytes, refused } = used;
        let [refused_live_bytes, refused_operations, refused_bytes] = refused;
        rt_quota_use {
            live_bytes,
            peak_live_bytes,
            live_blocks,
            operations,
            bytes,
            refused_live_bytes,
            refused_operations,
            refused_bytes,
        }
    }
}

/// The configuration of a heap with quotas.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct rt_quota_tlsf_config {
    /// The limits of the first `components` components. May be NULL if `components` is 0.
    pub limits: *const rt_quota_limits,
    /// Number of limits at `limits`, at most RT_COMPONENTS.
    pub components: usize,
    /// Length of a period, in the unit of the times passed to `tick`. 0: only `begin_period` starts a period.
    pub period_ticks: u64,
}

impl rt_quota_tlsf_config {
    /// The limits of every component; `None` if they are invalid.
    ///
    /// # Safety
    ///
    /// `limits` points to `components` readable limits, or is null.
    unsafe fn limits(self) -> Option<[QuotaLimits; RT_COMPONENTS]> {
        let mut limits = [QuotaLimits::default(); RT_COMPONENTS];
        if self.components > RT_COMPONENTS || (self.components != 0 && self.limits.is_null()) {
            return None;
        }
        // Loop bound: components
        for (number, place) in limits.iter_mut().take(self.components).enumerate() {
            // SAFETY: `limits` points to `components` limits, and `number` is less.
            *place = unsafe { self.limits.add(number).read() }.into();
        }
        Some(limits)
    }
}

impl<C: Default> Configured<rt_quota_tlsf_config> for QuotaConfig<C> {
    unsafe fn configured(config: rt_quota_tlsf_config) -> Option<Self> {
        // SAFETY: the caller ensures that the limits are readable.
        let limits = unsafe { config.limits() }?;
        Some(QuotaConfig { heap: C::default(), limits, period_ticks: config.period_ticks })
    }
}

/// The configuration of a heap with all debugging adapters.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct rt_debug_tlsf_config {
    /// As in `rt_guarded_tlsf_config`.
    pub quarantine_blocks: usize,
    /// As in `rt_guarded_tlsf_config`.
    pub secret: usize,
    /// As in `rt_failing_tlsf_config`.
    pub failures: rt_failures,
    /// As in `rt_quota_tlsf_config`. Bytes are those of the guarded blocks, including fences and quarantine.
    pub quota: rt_quota_tlsf_config,
    /// As in `rt_traced_tlsf_config`.
    pub records: usize,
}

/// The Rust configuration of a heap with all debugging adapters.
type Everything = GuardedConfig<FailingConfig<QuotaConfig<TracedConfig<TagConfig>>>>;

impl Configured<rt_debug_tlsf_config> for Everything {
    unsafe fn configured(config: rt_debug_tlsf_config) -> Option<Self> {
        let rt_debug_tlsf_config { quarantine_blocks, secret, failures, quota, records: given } = config;
        let traced = TracedConfig { records: records(given), heap: TagConfig::default() };
        // SAFETY: the caller ensures that the limits are readable.
        let limits = unsafe { quota.limits() }?;
        let quota = QuotaConfig { heap: traced, limits, period_ticks: quota.period_ticks };
        let failing = FailingConfig { heap: quota, failures: failures.plan()? };
        Some(GuardedConfig { heap: failing, quarantine_blocks, secret })
    }
}
