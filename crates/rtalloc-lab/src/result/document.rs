//! The JSON documents that the command writes: the field `schema` of each identifies its type and version.

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Serialize};

/// The type of a document. The version is incremented when a field is renamed, removed, or changes its meaning or type;
/// fields may be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Schema {
    /// `rtalloc-` and the subcommand.
    pub name: &'static str,
    /// Starts at 1.
    pub version: u32,
}

/// Declares one constant per document, and the list of all documents.
macro_rules! schemas {
    ($($(#[doc = $what:literal])* $constant:ident = ($name:literal, $version:literal);)*) => {
        impl Schema {
            $($(#[doc = $what])* pub const $constant: Self = Self { name: $name, version: $version };)*
            /// All documents.
            pub const ALL: &'static [Self] = &[$(Self::$constant),*];
        }
    };
}

schemas! {
    /// `rtalloc run` and the main job.
    RUN = ("rtalloc-run", 3);
    /// `rtalloc threads`.
    THREADS = ("rtalloc-threads", 2);
    /// `rtalloc compare`.
    COMPARE = ("rtalloc-compare", 3);
    /// `rtalloc bound --json`.
    BOUND = ("rtalloc-bound", 3);
    /// `rtalloc bound --save`.
    BASELINE = ("rtalloc-bound-save", 2);
    /// `rtalloc allocators`.
    ALLOCATORS = ("rtalloc-allocators", 2);
    /// `rtalloc costs`.
    COSTS = ("rtalloc-costs", 2);
    /// `rtalloc size`.
    SIZE = ("rtalloc-size", 1);
    /// `rtalloc size --heap`.
    SIZE_OF_HEAP = ("rtalloc-size-of-heap", 1);
    /// `rtalloc size --exact`.
    SIZE_EXACT = ("rtalloc-size-exact", 1);
    /// `rtalloc size --attack`.
    SIZE_ATTACK = ("rtalloc-size-attack", 1);
    /// `rtalloc advise`.
    ADVISE = ("rtalloc-advise", 1);
    /// `rtalloc interleave`.
    INTERLEAVE = ("rtalloc-interleave", 2);
    /// `rtalloc tune`.
    TUNE = ("rtalloc-tune", 2);
    /// `rtalloc inspect`.
    INSPECT = ("rtalloc-inspect", 2);
    /// `rtalloc record --summary`.
    RECORD = ("rtalloc-record", 2);
    /// `rtalloc recover --summary`.
    RECOVER = ("rtalloc-recover", 2);
    /// `rtalloc import --summary`.
    IMPORT = ("rtalloc-import", 1);
    /// `rtalloc export --json`.
    EXPORT = ("rtalloc-export", 2);
    /// `rtalloc reproduce tlsf`.
    TLSF = ("rtalloc-reproduce-tlsf", 4);
    /// `rtalloc reproduce puaut`.
    PUAUT = ("rtalloc-reproduce-puaut", 3);
    /// `rtalloc reproduce wait-free`.
    WAIT_FREE = ("rtalloc-reproduce-wait-free", 3);
    /// `rtalloc reproduce thesis`.
    THESIS = ("rtalloc-reproduce-thesis", 4);
    /// `rtalloc reproduce compact-fit`.
    COMPACT_FIT = ("rtalloc-reproduce-compact-fit", 3);
    /// `rtalloc reproduce robson`.
    ROBSON = ("rtalloc-reproduce-robson", 3);
    /// `rtalloc reproduce all`.
    ALL_PAPERS = ("rtalloc-reproduce-all", 4);
}

/// A document: its schema, followed by its content.
#[derive(Serialize)]
struct Document<'a, T> {
    schema: Schema,
    #[serde(flatten)]
    content: &'a T,
}

/// `content`, which has named fields, as indented JSON; ends with a line break.
///
/// # Errors
///
/// If the content is not a JSON object.
pub fn pretty(schema: Schema, content: &impl Serialize) -> serde_json::Result<String> {
    Ok(serde_json::to_string_pretty(&Document { schema, content })? + "\n")
}

/// The same on one line, for large documents.
///
/// # Errors
///
/// If the content is not a JSON object.
pub fn compact(schema: Schema, content: &impl Serialize) -> serde_json::Result<String> {
    Ok(serde_json::to_string(&Document { schema, content })? + "\n")
}

/// Reads a document of this schema.
///
/// # Errors
///
/// If the text is not such a document, or one of another version.
pub fn read<T: DeserializeOwned>(schema: Schema, text: &str) -> serde_json::Result<T> {
    #[derive(Deserialize)]
    struct Versioned {
        schema: Named,
    }
    #[derive(Deserialize)]
    struct Named {
        name: String,
        version: u32,
    }
    let Named { name, version } = serde_json::from_str::<Versioned>(text)?.schema;
    if (name.as_str(), version) != (schema.name, schema.version) {
        return Err(serde_json::Error::custom(format!(
            "it is {name} version {version}; this rtalloc reads {} version {}",
            schema.name, schema.version
        )));
    }
    serde_json::from_str(text)
}

/// As [`compact`], for content that is already the text of a non-empty JSON object.
///
/// # Errors
///
/// None, provided that a schema is serializable.
pub fn of_object(schema: Schema, object: &str) -> serde_json::Result<String> {
    Ok(format!("{{\"schema\":{},{}\n", serde_json::to_string(&schema)?, &object[1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_says_what_it_is() {
        #[derive(Serialize)]
        struct Content {
            mean: f64,
        }
        let text = compact(Schema::COSTS, &Content { mean: 0.1 }).expect("JSON");
        assert_eq!(text, "{\"schema\":{\"name\":\"rtalloc-costs\",\"version\":2},\"mean\":0.1}\n");
        assert_eq!(of_object(Schema::COSTS, "{\"mean\":0.1}").expect("JSON"), text);
        assert!(compact(Schema::COSTS, &[1, 2]).is_err(), "a list has no fields");
    }

    #[test]
    fn no_two_documents_have_the_same_name() {
        let names: std::collections::HashSet<&str> = Schema::ALL.iter().map(|schema| schema.name).collect();
        assert_eq!(names.len(), Schema::ALL.len());
        assert!(Schema::ALL.iter().all(|schema| schema.name.starts_with("rtalloc-") && schema.version > 0));
    }
}
