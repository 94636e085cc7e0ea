//! The heaps for several threads in the hand of one user, so that everything that is asked of sequential heaps can be asked of
//! them: what they cost where nobody else is there, and what their machine code proves.

use super::Subject;
use super::adapter::{Choice, configured, ours};
use rtalloc::adapt::Alone;
use rtalloc::concurrent::arenas::{Arenas, ArenasConfig};
use rtalloc::concurrent::bitmap_buddy::{BitmapBuddy, BitmapConfig};
use rtalloc::concurrent::tree_buddy::{InBand, TreeBuddy};
use rtalloc::contract::RegionAllocator as _;
use rtalloc::segregated::Tlsf;

/// A heap for one user: the whole region is its.
#[derive(Clone, Copy, Debug)]
pub struct OneSlot;

impl<C: Default> Choice<ArenasConfig<C>> for OneSlot {
    fn config() -> ArenasConfig<C> {
        ArenasConfig { slots: 1, ..ArenasConfig::default() }
    }
}

impl Choice<BitmapConfig> for OneSlot {
    fn config() -> BitmapConfig {
        BitmapConfig { slots: 1 }
    }
}

/// Arenas as they are without being asked.
const ARENAS: &str = "arenas";
const BITMAP_BUDDY: &str = "bitmap-buddy";
const TREE_BUDDY: &str = "tree-buddy";
const TREE_BUDDY_IN_BAND: &str = "tree-buddy-in-band";

type Bitmap = BitmapBuddy<'static>;
type Aside = TreeBuddy<'static>;
type InTheBand = TreeBuddy<'static, 64, InBand>;

/// Those of the table of subjects.
pub const NAMED: [Subject; 4] = [
    // The family is that of the heap in each arena.
    Subject {
        family: <Tlsf<'static>>::CONTRACT.mechanism.name(),
        ..configured::<Alone<'static, Arenas<'static>>, OneSlot>(ARENAS)
    },
    configured::<Alone<'static, Bitmap>, OneSlot>(BITMAP_BUDDY),
    ours::<Alone<'static, Aside>>(TREE_BUDDY),
    ours::<Alone<'static, InTheBand>>(TREE_BUDDY_IN_BAND),
];

/// How often a loop of such a heap turns at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turns {
    /// Levels of a tree buddy's tree.
    pub levels: Option<u32>,
    /// Words of a bitmap buddy's bitmaps.
    pub words: Option<usize>,
    /// Slots that have lines, in which operations are counted.
    pub lines: Option<usize>,
    /// Blocks that an allocation of arenas takes back, each time.
    pub taken_back: Option<usize>,
    /// Words of the notices of an arena.
    pub notices: Option<usize>,
}

/// The most turns in a region of so many bytes; of each loop that the subject of this name has.
#[must_use]
pub fn turns(name: &str, region_bytes: usize) -> Turns {
    let none = Turns { levels: None, words: None, lines: None, taken_back: None, notices: None };
    match name {
        ARENAS => {
            let config = <OneSlot as Choice<ArenasConfig<()>>>::config();
            let most = config.taken_back.max(config.taken_back_on_miss);
            let notices = config.slots.div_ceil(usize::BITS as usize);
            Turns { taken_back: Some(most), notices: Some(notices), ..none }
        }
        BITMAP_BUDDY => {
            let config = <OneSlot as Choice<BitmapConfig>>::config();
            let words = Bitmap::most_words(region_bytes);
            Turns { words: Some(words), lines: Some(config.slots), ..none }
        }
        TREE_BUDDY => Turns { levels: Some(Aside::depth_in(region_bytes)), ..none },
        TREE_BUDDY_IN_BAND => Turns { levels: Some(InTheBand::depth_in(region_bytes)), ..none },
        _ => none,
    }
}
