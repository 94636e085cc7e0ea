//! Selection of subjects by name.

use crate::as_published::AS_PUBLISHED;
use crate::{Origin, Subject, all, peers};

/// An invalid selection of subjects.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectError {
    /// The name is neither a subject nor a group.
    #[error("there is no allocator {name:?}; {}", instead(name))]
    Unknown {
        /// The given name.
        name: String,
    },
    /// The name is that of a group where one allocator is expected.
    #[error("{name:?} is a group; name one allocator: {}", members(name))]
    Group {
        /// The given name.
        name: String,
    },
    /// Everything selected was excluded again.
    #[error("the selection of allocators is empty; {}", instead(""))]
    Empty,
}

/// The names of a group.
fn members(group: &str) -> String {
    let members: Vec<&str> =
        all().iter().filter(|subject| subject.is_named(group)).map(|subject| subject.name).collect();
    members.join(", ")
}

/// Names to choose from: similar ones, or how to list them.
fn instead(name: &str) -> String {
    if peers::FEATURES.contains(&name) {
        return format!("this build leaves it out: build with `--features rtalloc-subjects/{name}`");
    }
    let similar = similar(name);
    if similar.is_empty() {
        "`rtalloc allocators` lists them".into()
    } else {
        format!("did you mean {}? `rtalloc allocators` lists all", similar.join(" or "))
    }
}

/// The names and groups that `name` may have been meant for: at most two edits away, or containing it, the nearest
/// first. Case does not matter, nor do hyphens, underscores and spaces.
#[must_use]
pub fn similar(name: &str) -> Vec<&'static str> {
    let letters = |text: &str| text.replace(['-', '_', ' '], "").to_lowercase();
    let name = letters(name);
    if name.is_empty() {
        return Vec::new();
    }
    let mut near: Vec<(usize, &str)> = names()
        .into_iter()
        .chain(groups())
        .filter_map(|known| {
            let plain = letters(known);
            let distance = distance(&name, &plain);
            let part = name.len() >= 3 && (plain.contains(&name) || name.contains(&plain));
            (part || distance <= 2.min(plain.len() / 2)).then_some((distance, known))
        })
        .collect();
    near.sort_unstable();
    near.truncate(4);
    near.into_iter().map(|(_, known)| known).collect()
}

/// Edit distance: letters to change, insert, remove or swap with their neighbour to turn one word into the other.
fn distance(left: &str, right: &str) -> usize {
    let (left, right): (Vec<char>, Vec<char>) = (left.chars().collect(), right.chars().collect());
    let mut rows = vec![vec![0; right.len() + 1]; left.len() + 1];
    for (at, row) in rows.iter_mut().enumerate() {
        row[0] = at;
    }
    rows[0] = (0..=right.len()).collect();
    for i in 1..=left.len() {
        for j in 1..=right.len() {
            let changed = rows[i - 1][j - 1] + usize::from(left[i - 1] != right[j - 1]);
            let mut least = changed.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
            if i > 1 && j > 1 && left[i - 1] == right[j - 2] && left[i - 2] == right[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = least;
        }
    }
    rows[left.len()][right.len()]
}

fn names() -> Vec<&'static str> {
    all().iter().map(|subject| subject.name).collect()
}

/// Groups by origin, and the selected dozen.
const GROUPS: [&str; 4] = ["all", "ours", "peers", "dozen"];

/// Every group: those by origin, the dozen, and the families of the field's taxonomy.
#[must_use]
pub fn groups() -> Vec<&'static str> {
    let mut families: Vec<&str> = all().iter().map(|subject| subject.family).collect();
    families.sort_unstable();
    families.dedup();
    GROUPS.into_iter().chain(families).collect()
}

impl Subject {
    /// Whether `word` names this subject or a group it is in.
    fn is_named(&self, word: &str) -> bool {
        match word {
            "all" => true,
            "ours" => self.origin == Origin::Ours,
            "peers" => self.origin != Origin::Ours,
            "dozen" => self.about.in_dozen,
            _ => self.name == word || self.family == word,
        }
    }
}

/// Selects subjects by their names and [`groups`]; a leading `-` excludes. A selection that starts with an exclusion
/// starts from all. The result is in table order.
///
/// # Errors
///
/// [`SelectError`]: an unknown name, or an empty selection.
pub fn select<S: AsRef<str>>(choice: &[S]) -> Result<Vec<&'static Subject>, SelectError> {
    let starts_full = choice.first().is_none_or(|first| first.as_ref().starts_with('-'));
    let mut chosen = vec![starts_full; all().len()];
    for word in choice {
        let word = word.as_ref();
        let (name, include) = word.strip_prefix('-').map_or((word, true), |name| (name, false));
        let mut known = GROUPS.contains(&name);
        for (subject, chosen) in all().iter().zip(&mut chosen) {
            if subject.is_named(name) {
                known = true;
                *chosen = include;
            }
        }
        if !known {
            return Err(SelectError::Unknown { name: name.into() });
        }
    }
    let chosen: Vec<_> = all().iter().zip(chosen).filter_map(|(subject, chosen)| chosen.then_some(subject)).collect();
    if chosen.is_empty() { Err(SelectError::Empty) } else { Ok(chosen) }
}

/// The subject of this name.
///
/// # Errors
///
/// [`SelectError`]: an unknown name, or the name of a group.
pub fn one(name: &str) -> Result<&'static Subject, SelectError> {
    if let Some(subject) = all().iter().chain(AS_PUBLISHED).find(|subject| subject.name == name) {
        return Ok(subject);
    }
    let known = groups().contains(&name);
    let name = name.to_string();
    Err(if known { SelectError::Group { name } } else { SelectError::Unknown { name } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(feature = "peers")]
    fn one_refuses_groups() {
        assert_eq!(one("tlsf").map(|subject| subject.name), Ok("tlsf"));
        let group = one("hybrid").unwrap_err().to_string();
        assert!(group.starts_with("\"hybrid\" is a group; name one allocator: dlmalloc, "), "{group}");
        assert_eq!(one("-tlsf").unwrap_err(), SelectError::Unknown { name: "-tlsf".into() });
    }

    #[test]
    #[cfg(feature = "peers")]
    fn selections_include_exclude_and_list_the_names() {
        let names = |choice: &[&str]| -> Vec<&str> {
            select(choice).expect("a valid choice").iter().map(|subject| subject.name).collect()
        };
        assert_eq!(names(&[]).len(), all().len());
        assert_eq!(names(&["talc", "rlsf"]), ["rlsf", "talc"], "table order");
        assert_eq!(names(&["-talc"]).len(), all().len() - 1);
        assert!(!names(&["all", "-talc"]).contains(&"talc"));
        assert!(names(&["peers"]).contains(&"system"));
        assert!(names(&["sequential"]).contains(&"first-fit") && names(&["sequential"]).contains(&"linked-list"));
        assert_eq!(select(&["talc", "-talc"]).unwrap_err(), SelectError::Empty);
        let message = select(&["quetzalcoatl"]).unwrap_err().to_string();
        assert_eq!(message, "there is no allocator \"quetzalcoatl\"; `rtalloc allocators` lists them");
    }

    #[test]
    fn a_peer_that_is_not_built_is_named_with_its_feature() {
        for &peer in peers::FEATURES {
            let refused = one(peer).err().map(|error| error.to_string());
            let is_built = all().iter().any(|subject| subject.name == peer);
            assert_eq!(refused.is_none(), is_built, "{peer}");
            assert!(
                refused.is_none_or(|message| message.contains(&format!("--features rtalloc-subjects/{peer}"))),
                "{peer}"
            );
        }
    }

    #[test]
    #[cfg(feature = "peers")]
    fn a_misspelt_name_is_recognised() {
        let message = select(&["tlfs"]).unwrap_err().to_string();
        assert!(message.contains("\"tlfs\"; did you mean tlsf"), "{message}");
        assert_eq!(similar("dlmaloc"), ["dlmalloc"]);
        assert_eq!(similar("best_fit").first(), Some(&"best-fit"));
        assert_eq!(similar("Tree Best Fit").first(), Some(&"tree-best-fit"));
        assert_eq!(similar("TLSF").first(), Some(&"tlsf"));
        assert_eq!(similar("HALFFIT").first(), Some(&"half-fit"));
        assert!(similar("zzzzzzzz").is_empty());
        assert_eq!((distance("tlsf", "tlsf"), distance("tlfs", "tlsf"), distance("", "abc")), (0, 1, 3));
    }

    #[test]
    fn names_are_unique_and_no_groups() {
        let mut names = names();
        names.extend(groups());
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    #[cfg(feature = "peers")]
    fn the_dozen_are_twelve_of_every_family_we_have() {
        let dozen = select(&["dozen"]).expect("twelve");
        assert_eq!(dozen.len(), 12);
        let families = |of: &[&Subject]| -> std::collections::BTreeSet<&str> {
            of.iter().filter(|subject| subject.origin == Origin::Ours).map(|subject| subject.family).collect()
        };
        // A subject whose objects have handles cannot replace another one in an unmodified program.
        let pointers: Vec<&Subject> = all().iter().filter(|subject| subject.entries.handles.is_none()).collect();
        assert_eq!(families(&dozen), families(&pointers));
    }
}
