//! All papers on one page: the recommendation, the verdicts, a chapter for each paper, the papers' errata, and the
//! methods.

mod gist;
mod guide;
mod methods;
mod numbering;

use crate::papers::Scale;
use crate::papers::chapter::{Chapter, Figure, Section};
use crate::papers::claims::{VERDICTS_MEAN, Verdict};
use crate::papers::overview::result::{Need, Overview};
use crate::present::page::{Tabled, environments, figure, measured, page};
use crate::present::plot::{self, Field, PlotError};
use crate::present::summary::Standing;
use crate::present::table::Look;
use crate::present::verdict::wrapped;
use guide::{Guide, guide};
use maud::{Markup, html};
use numbering::Numbering;
use rtalloc_lab::number;
use rtalloc_lab::result::schema::Environment;

/// The inputs of a page.
pub struct Papers<'a> {
    /// The scale of the experiments.
    pub scale: Scale,
    /// The overview of all allocators.
    pub overview: &'a Overview,
    /// The papers.
    pub chapters: &'a [Chapter],
    /// The program, and the machines that performed timings, most recent first.
    pub environments: &'a [Environment],
}

/// The page as an HTML document.
///
/// # Errors
///
/// See [`PlotError`].
pub fn html(papers: &Papers<'_>) -> Result<String, PlotError> {
    let mut numbering = Numbering::default();
    let guide = guide(papers.overview);
    let answer = answer(papers, &guide, &mut numbering)?;
    // Figures first: tables use the colours of allocators that occur in a figure.
    let drawn: Vec<Drawn> = papers.chapters.iter().map(|chapter| all_entered(chapter, &mut numbering)).collect();
    let body = html! {
        (gist::gist(papers.chapters))
        (answer)
        h3 { "All allocators" }
        (bounds_table(papers.overview, &guide, false).html(&|name| numbering.index(name)))
        h3 { "Smallest heap / live memory M of each trace" }
        (heaps_table(papers.overview, &guide).html(&|name| numbering.index(name)))
        (verdicts(papers.chapters))
        @for (chapter, drawn) in papers.chapters.iter().zip(&drawn) { (of_paper(chapter, drawn, &numbering)) }
        (errata(papers.chapters))
        (methods::methods(papers))
        (environments(papers.environments))
    };
    let mut links: Vec<(String, String)> =
        [("gist", "what holds"), ("verdicts", "verdicts")].map(|(id, words)| (id.into(), words.into())).into();
    links.extend(papers.chapters.iter().map(|chapter| (chapter.id.into(), short(&chapter.title).into())));
    links.extend(
        [("errata", "errata of the papers"), ("methods", "methods"), ("environment", "environment")]
            .map(|(id, words)| (id.into(), words.into())),
    );
    let quick = papers.scale.in_title();
    let heading = format!("rtalloc: five papers on dynamic memory for real-time systems, reproduced{quick}");
    Ok(page(&format!("rtalloc: {}{quick}", guide.headline), &heading, &numbering.styles, &links, &body))
}

/// A page of one paper; `of` as in [`Papers`].
#[must_use]
pub fn of_one(chapter: &Chapter, of: &[Environment]) -> String {
    let mut numbering = Numbering::default();
    let drawn = all_entered(chapter, &mut numbering);
    let body = html! {
        @if let Some(first) = of.first() { p { (measured(first)) } }
        (verdicts(std::slice::from_ref(chapter)))
        (of_paper(chapter, &drawn, &numbering))
        @if !chapter.errata.is_empty() { (errata(std::slice::from_ref(chapter))) }
        (environments(of))
    };
    let mut links = vec![("verdicts", "verdicts"), (chapter.id, "tables and figures")];
    links.extend((!chapter.errata.is_empty()).then_some(("errata", "errata of the paper")));
    links.push(("environment", "environment"));
    let links: Vec<(String, String)> = links.into_iter().map(|(id, words)| (id.into(), words.into())).collect();
    page(&format!("rtalloc: {}", short(&chapter.title)), &chapter.title, &numbering.styles, &links, &body)
}

/// The figures of each section.
type Drawn = Vec<Vec<Markup>>;

fn all_entered(chapter: &Chapter, numbering: &mut Numbering) -> Drawn {
    let mut of =
        |section: &Section| section.figures.iter().map(|drawn| entered(chapter.id, drawn, numbering)).collect();
    chapter.sections.iter().map(&mut of).collect()
}

/// A title up to its first colon or comma.
fn short(title: &str) -> &str {
    title.split([':', ',']).next().unwrap_or(title)
}

fn answer(papers: &Papers<'_>, guide: &Guide, numbering: &mut Numbering) -> Result<Markup, PlotError> {
    let styles = crate::present::palette::of(&guide.standings);
    let heap = number::bytes(papers.overview.heap_bytes);
    let field = Field {
        standings: &guide.standings,
        front: &guide.front,
        take: guide.take,
        take_at: None,
        worst: "static bound of the worst operation, instructions",
        heap: plot::HEAP,
        beside: &[],
        unknown: Some("no static bound"),
        description: "Static bound of the worst operation against heap needed, over all traces",
    };
    let drawn = plot::pareto(field, &styles)?.map(|svg| numbering.entered(&svg, &guide.standings));
    Ok(html! {
        section.verdict id="answer" {
            h2 { (guide.headline) }
            p { (guide.paragraph) }
            @if let Some(first) = papers.environments.first() { p { (measured(first)) } }
        }
        (figure(drawn.as_deref(), &html! {
            b { "Proved instructions against heap needed. " }
            "Lower left is better; both axes are logarithmic. Vertical: proved bound on the instructions of allocate \
             and free in a heap of " (heap) ". \
                Horizontal: smallest heap / live memory M, on the worst trace. Filled marks: constant cost according \
                to the author. Dotted line: the Pareto front of the allocators with a bound. Allocators that failed on \
                a trace or take pages from the system are only in the table."
        }))
    })
}

/// Bounds of all allocators, and the trace that needs most; the short form fits a terminal.
fn bounds_table(overview: &Overview, guide: &Guide, brief: bool) -> Tabled {
    let or_dash = |value: Option<u64>| value.map_or_else(|| "-".into(), number::grouped);
    let mut headings = vec!["\nallocator"];
    headings.extend(if brief { [].as_slice() } else { &["\nfamily", "\ncost"] });
    let words = headings.len();
    headings.extend(["allocate\nat most", "free\nat most", "in any\nheap", "heap / M\nat most", "\non"]);
    let rows = overview.rows.iter().zip(&guide.standings).map(|(row, standing)| {
        let mut texts = vec![row.subject.name.clone()];
        texts.extend((!brief).then(|| [row.subject.family.clone(), row.subject.cost.clone()]).into_iter().flatten());
        texts.extend(row.bounds.in_heap.map(or_dash));
        let any = match (row.bounds.worst(), row.bounds.is_of_any_heap()) {
            (None, _) => "-",
            (_, true) => "yes",
            (_, false) => "no",
        };
        texts.push(any.into());
        texts.push(ratio(standing.heap.as_ref().map(|need| need.ratio)));
        texts.push(standing.heap.as_ref().map_or_else(String::new, |need| need.trace.clone()));
        texts
    });
    Tabled::new(&headings, words, rows)
}

/// The heap that each trace needs.
fn heaps_table(overview: &Overview, guide: &Guide) -> Tabled {
    let mut headings = vec!["\nallocator".to_owned()];
    // Trace names wrapped into short lines.
    headings.extend(overview.traces.iter().map(|trace| trace.replacen('-', "-\n", 1)));
    headings.push("\nwhat happened".into());
    let rows = overview.rows.iter().zip(&guide.standings).map(|(row, standing)| {
        let needed = (0..overview.traces.len()).map(|place| ratio(row.needs.get(place).and_then(Need::ratio)));
        std::iter::once(row.subject.name.clone()).chain(needed).chain([happened(standing)]).collect()
    });
    Tabled::new(&headings, 1, rows)
}

fn ratio(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| "-".into(), |ratio| format!("{ratio:.2}"))
}

/// The recommendations, for the terminal.
#[must_use]
pub fn text(overview: &Overview, look: Look) -> String {
    let guide = guide(overview);
    let heap = number::bytes(overview.heap_bytes);
    format!(
        "{}\n{}\n\nBound on the instructions of an operation in a heap of {heap}; smallest heap for a trace / live \
         memory M\n{}",
        guide.headline,
        wrapped(&guide.paragraph, look.columns, 0),
        bounds_table(overview, &guide, true).text(look)
    )
}

fn happened(standing: &Standing) -> String {
    let limit = standing.subject.largest_request_bytes.filter(|_| standing.only_beyond_reach);
    match (standing.own_pages, limit, standing.troubles.as_slice()) {
        (true, ..) => "takes pages from the system".into(),
        (_, Some(limit), _) => format!("serves only requests up to {}", number::bytes(limit)),
        (_, None, []) => "served every trace".into(),
        (_, None, troubles) => {
            troubles.iter().map(|(trace, what)| format!("{trace}: {what}")).collect::<Vec<_>>().join("; ")
        }
    }
}

/// A figure with the page's allocator numbers, under a name that is unique on the page.
fn entered(chapter: &str, drawn: &Figure, numbering: &mut Numbering) -> Markup {
    let svg = numbering.entered(&drawn.svg, &drawn.standings);
    let (heading, sentences) = &drawn.caption;
    html! {
        div id={ (chapter) "-" (drawn.name) } { (figure(Some(&svg), &html! { b { (heading) " " } (sentences) })) }
    }
}

/// Every claim of every paper.
fn verdicts(chapters: &[Chapter]) -> Markup {
    let all: usize = chapters.iter().map(|chapter| chapter.claims.len()).sum();
    html! {
        section id="verdicts" {
            h2 { "Claims and verdicts" }
            p.about { "Every claim is judged automatically by the rule stated in it. " (VERDICTS_MEAN) }
            div.filters {
                button type="button" data-filter="" aria-pressed="true" { "all (" (all) ")" }
                @for verdict in Verdict::ALL {
                    @let of_all: usize = chapters.iter().map(|chapter| verdict.count(&chapter.claims)).sum();
                    button type="button" data-filter=(verdict.name()) aria-pressed="false" {
                        (verdict.name()) " (" (of_all) ")"
                    }
                }
            }
            div.scroll {
                table.claims {
                    thead {
                        tr { @for name in ["chapter", "verdict", "claim", "why", "figures"] { th.left { (name) } } }
                    }
                    tbody {
                        @for chapter in chapters {
                            @for claim in &chapter.claims {
                                tr data-verdict=(claim.verdict.name()) {
                                    th scope="row" data-v=(short(&chapter.title)) { a href={ "#" (chapter.id) } { (short(&chapter.title)) } }
                                    td.left data-v=(claim.verdict.name()) { (badge(claim.verdict)) }
                                    td.left.what data-v=(claim.claim) { (claim.claim) }
                                    td.left.what data-v=(claim.reason()) { (claim.reason()) }
                                    td.left.what data-v=(claim.figures) { (claim.figures) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The verdict as coloured text.
fn badge(verdict: Verdict) -> Markup {
    let class = match verdict {
        Verdict::Confirmed => "yes",
        Verdict::Refuted => "no",
        Verdict::Calibrated | Verdict::NotComparable | Verdict::NotReproduced => "open",
    };
    html! { span class={ "badge " (class) } { (verdict.name()) } }
}

fn of_paper(chapter: &Chapter, drawn: &[Vec<Markup>], numbering: &Numbering) -> Markup {
    html! {
        section.paper id=(chapter.id) {
            h2 { (chapter.title) }
            p.about {
                @for (place, verdict) in Verdict::ALL.into_iter().enumerate() {
                    @if place > 0 { ", " }
                    (verdict.count(&chapter.claims)) " " (verdict.name())
                }
                "."
            }
            @for (place, (section, drawn)) in chapter.sections.iter().zip(drawn).enumerate() {
                div id={ (chapter.id) "-" (place + 1) } {
                    h3 { (section.title) }
                    @if !section.about.is_empty() { p.about { (section.about) } }
                    @for figure in drawn { (figure) }
                    @for (line, table) in &section.tables {
                        @if !line.is_empty() { p.line { (line) } }
                        (table.html(&|name| numbering.index(name)))
                    }
                }
            }
            @if !chapter.notes.is_empty() {
                h3 { "Notes" }
                ul.notes { @for note in &chapter.notes { li { (note) } } }
            }
        }
    }
}

/// The errors and omissions of the papers.
fn errata(chapters: &[Chapter]) -> Markup {
    html! {
        section id="errata" {
            h2 { "Errata and ambiguities of the papers" }
            p.about { "And what was chosen here. The papers can be checked because they publish so much detail." }
            @for chapter in chapters.iter().filter(|chapter| !chapter.errata.is_empty()) {
                h3 { (chapter.title) }
                ul { @for text in &chapter.errata { li { (text) } } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::guide::tests::overview;
    use super::*;
    use crate::papers::claims::Claim;
    use crate::present::plot::canvas::sheet;
    use crate::present::summary::named;
    use rtalloc_lab::probe::cycles::Clock;

    fn chapter(id: &'static str) -> Chapter {
        let svg = sheet(100, 100, 1, "a curve", |canvas| {
            canvas.tooltips((0, "TLSF"), ["x", "y"], [((1, 1), 1.0, 2.0)]);
            Ok(())
        });
        let figure = Figure {
            name: "figure-1".into(),
            caption: ("A curve.".into(), "It climbs.".into()),
            svg: svg.expect("drawn"),
            standings: vec![named("TLSF", "tlsf")],
        };
        let claim = |holds| Claim::new("a < b", holds, "1 and 2").because(Verdict::Refuted, "1 was added");
        let table = Tabled::new(&["allocator", "n"], 1, [vec!["tlsf".into(), "1,024".into()]].into_iter());
        Chapter {
            id,
            title: format!("{id} (1999): a paper"),
            claims: [Some(true), Some(false), None].map(claim).into(),
            sections: vec![Section {
                title: "Table 1".into(),
                about: "What it shows.".into(),
                tables: vec![("Above it".into(), table)],
                figures: vec![figure],
            }],
            notes: vec!["a note".into()],
            errata: vec!["a misprint".into()],
        }
    }

    fn made_up() -> String {
        let overview = overview(&[("half-fit", Some(90), Some(1500)), ("tlsf", Some(100), Some(1100))]);
        let here = Environment::here(Clock::calibrate());
        let environments = [here.clone(), Environment { cpu: "another processor".into(), ..here }];
        let chapters = ["one", "two"].map(chapter);
        html(&Papers { scale: Scale::Quick, overview: &overview, chapters: &chapters, environments: &environments })
            .expect("drawn")
    }

    #[test]
    fn the_page_has_everything_once() {
        let page = made_up();
        assert_eq!(page.matches("<svg ").count(), 3, "the answer, and a figure of each paper");
        assert_eq!(page.matches("data-verdict=\"refuted\"").count(), 2);
        for words in [
            "another processor, ",
            "refuted (2)",
            "all (6)",
            "a &lt; b",
            "It climbs.",
            "a misprint",
            "1 confirmed, 1 refuted, 0 calibrated, 0 not comparable, 1 not reproduced.",
            "<p>Measured ",
        ] {
            assert!(page.contains(words), "{words}");
        }
        let attributes = |name: &str| -> Vec<String> {
            page.split(&format!(" {name}=\""))
                .skip(1)
                .filter_map(|rest| Some(rest.split('"').next()?.to_string()))
                .collect()
        };
        let ids = attributes("id");
        let unique: std::collections::BTreeSet<&String> = ids.iter().collect();
        assert_eq!(unique.len(), ids.len(), "{ids:?}");
        for target in attributes("href").iter().filter_map(|target| target.strip_prefix('#')) {
            assert!(ids.iter().any(|id| id == target), "{target}");
        }
    }

    #[test]
    fn a_page_of_one_paper_lists_its_errata() {
        let environments = [Environment::here(Clock::calibrate())];
        let page = of_one(&chapter("one"), &environments);
        assert!(page.contains(&measured(&environments[0])) && page.contains(&environments[0].rtalloc));
        assert!(page.contains("a misprint") && page.contains("href=\"#errata\"") && page.contains(VERDICTS_MEAN));
        assert!(!page.contains("times of different machines"));
        let page = of_one(&Chapter { errata: Vec::new(), ..chapter("one") }, &environments);
        assert!(!page.contains("errata"));
    }

    #[test]
    fn an_allocator_has_one_number_in_all_figures_and_tables() {
        let page = made_up();
        // TLSF is the second allocator of the overview, and the only one in the papers' figures.
        assert_eq!(page.matches("class=\"v1\" data-name=\"TLSF\"").count(), 2);
        assert!(!page.contains("class=\"v0\" data-name=\"TLSF\""));
        assert_eq!(page.matches("data-allocator=\"1\"").count(), 4, "both overview tables and one in each chapter");
    }

    #[test]
    fn nothing_is_loaded_from_anywhere() {
        let page = made_up();
        let (shown, _) = page.split_once("<script>").expect("a script");
        assert!(!shown.contains("NaN"));
        for mark in ["src=\"", "@import", "url(", "xmlns", "http:", "https:"] {
            assert!(!page.contains(mark), "{mark}");
        }
    }
}
