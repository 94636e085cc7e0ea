//! Heaps for debugging: how they are made, and the verbs that no other heap has.

use crate::error::is;
use crate::heap::Configured;
use core::mem::MaybeUninit;
use rtalloc::TagConfig;
use rtalloc::adapt::quota::COMPONENTS;
use rtalloc::adapt::{
    FailingConfig, Failures, GuardedConfig, QuotaConfig, QuotaLimit, QuotaLimits, QuotaUse, TracedConfig,
};

/// Components of a heap with quotas, numbered from 0.
pub const RT_COMPONENTS: usize = 8;
const _: () = assert!(RT_COMPONENTS == COMPONENTS);

/// Freed blocks that a guarded heap holds back where nothing is said.
pub const RT_QUARANTINE_BLOCKS: usize = 16;

/// How a guarded heap is made.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct rt_guarded_tlsf_config {
    /// How many freed blocks are held back, the oldest of which leaves for the next; RT_QUARANTINE_BLOCKS for a configuration of NULL. 0
    /// gives each back at once.
    pub quarantine_blocks: usize,
    /// What the fences' bytes depend on beside addresses; any number.
    pub secret: usize,
}

impl<C: Default> Configured<rt_guarded_tlsf_config> for GuardedConfig<C> {
    unsafe fn configured(config: rt_guarded_tlsf_config) -> Option<Self> {
        let rt_guarded_tlsf_config { quarantine_blocks, secret } = config;
        Some(GuardedConfig { heap: C::default(), quarantine_blocks, secret })
    }
}

/// How a heap with a flight recorder is made.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct rt_traced_tlsf_config {
    /// Operations that the ring keeps; 0: 256. Each takes four machine words.
    pub records: usize,
    /// Largest region, in bytes, that will be added later; as in `rt_heap_config`.
    pub max_region_bytes: usize,
}

/// Operations that a ring keeps.
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
    /// The one of this number.
    RT_FAILURES_NTH,
    /// The one of this number and all that follow, as if memory had run out for good.
    RT_FAILURES_FROM,
    /// Each whose number is a multiple of this.
    RT_FAILURES_EVERY_NTH,
    /// A share of them, chosen by the seed and the request's number.
    RT_FAILURES_SHARE,
}

/// Which requests a heap refuses on purpose. They are numbered from 1.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct rt_failures {
    /// Which.
    pub plan: MaybeUninit<rt_failure_plan>,
    /// The number that the plan is about; 0 refuses none.
    pub number: usize,
    /// Of RT_FAILURES_SHARE, so many of 2^32 requests in the mean.
    pub chance: u32,
    /// Of RT_FAILURES_SHARE; another seed chooses others.
    pub seed: u64,
}

impl rt_failures {
    /// The plan; `None` where C's number is none of one.
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

/// How a failing heap is made.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct rt_failing_tlsf_config {
    /// Which requests are refused from the beginning.
    pub failures: rt_failures,
    /// Largest region, in bytes, that will be added later; as in `rt_heap_config`.
    pub max_region_bytes: usize,
}

impl Configured<rt_failing_tlsf_config> for FailingConfig<TagConfig> {
    unsafe fn configured(config: rt_failing_tlsf_config) -> Option<Self> {
        let heap = TagConfig { max_region_bytes: config.max_region_bytes };
        Some(FailingConfig { heap, failures: config.failures.plan()? })
    }
}

/// What a component may use; of each, 0 is no limit.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct rt_quota_limits {
    /// Bytes that are live at a time.
    pub live_bytes: usize,
    /// Operations in a period.
    pub operations: usize,
    /// Bytes allocated in a period, whatever is freed meanwhile.
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

/// The limit that a request would have gone beyond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum rt_quota_limit {
    /// None was yet.
    RT_QUOTA_NONE,
    /// `live_bytes` of the block's owner.
    RT_QUOTA_LIVE_BYTES,
    /// `operations` of who asked.
    RT_QUOTA_OPERATIONS,
    /// `bytes` of who asked.
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

/// What a component has used.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct rt_quota_use {
    /// Bytes of its blocks that are live.
    pub live_bytes: usize,
    /// Most bytes that ever were.
    pub peak_live_bytes: usize,
    /// Its blocks that are live.
    pub live_blocks: usize,
    /// Operations in this period.
    pub operations: usize,
    /// Bytes allocated in this period.
    pub bytes: usize,
    /// Requests refused because of the limit of live bytes, since the heap was made.
    pub refused_live_bytes: usize,
    /// Because of that of operations.
    pub refused_operations: usize,
    /// Because of that of bytes of a period.
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

/// How a heap with quotas is made.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct rt_quota_tlsf_config {
    /// The limits of the first `components` components; may be NULL where there are none.
    pub limits: *const rt_quota_limits,
    /// How many there are at `limits`, at most RT_COMPONENTS.
    pub components: usize,
    /// How long a period is, in whatever a tick is told; 0 leaves periods to `begin_period`.
    pub period_ticks: u64,
}

impl rt_quota_tlsf_config {
    /// The limits of every component; `None` where they cannot be.
    ///
    /// # Safety
    ///
    /// So many limits as it says are readable where it says.
    unsafe fn limits(self) -> Option<[QuotaLimits; RT_COMPONENTS]> {
        let mut limits = [QuotaLimits::default(); RT_COMPONENTS];
        if self.components > RT_COMPONENTS || (self.components != 0 && self.limits.is_null()) {
            return None;
        }
        // turns: components
        for (number, place) in limits.iter_mut().take(self.components).enumerate() {
            // SAFETY: the caller's promise.
            *place = unsafe { self.limits.add(number).read() }.into();
        }
        Some(limits)
    }
}

impl<C: Default> Configured<rt_quota_tlsf_config> for QuotaConfig<C> {
    unsafe fn configured(config: rt_quota_tlsf_config) -> Option<Self> {
        // SAFETY: the caller's promise.
        let limits = unsafe { config.limits() }?;
        Some(QuotaConfig { heap: C::default(), limits, period_ticks: config.period_ticks })
    }
}

/// How a heap with everything for debugging is made.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct rt_debug_tlsf_config {
    /// As in `rt_guarded_tlsf_config`.
    pub quarantine_blocks: usize,
    /// As in `rt_guarded_tlsf_config`.
    pub secret: usize,
    /// As in `rt_failing_tlsf_config`.
    pub failures: rt_failures,
    /// As in `rt_quota_tlsf_config`. Bytes are those of the guarded blocks, fences and quarantine included.
    pub quota: rt_quota_tlsf_config,
    /// As in `rt_traced_tlsf_config`.
    pub records: usize,
}

/// The configuration of a heap with everything.
type Everything = GuardedConfig<FailingConfig<QuotaConfig<TracedConfig<TagConfig>>>>;

impl Configured<rt_debug_tlsf_config> for Everything {
    unsafe fn configured(config: rt_debug_tlsf_config) -> Option<Self> {
        let rt_debug_tlsf_config { quarantine_blocks, secret, failures, quota, records: given } = config;
        let traced = TracedConfig { records: records(given), heap: TagConfig::default() };
        // SAFETY: the caller's promise.
        let limits = unsafe { quota.limits() }?;
        let quota = QuotaConfig { heap: traced, limits, period_ticks: quota.period_ticks };
        let failing = FailingConfig { heap: quota, failures: failures.plan()? };
        Some(GuardedConfig { heap: failing, quarantine_blocks, secret })
    }
}
