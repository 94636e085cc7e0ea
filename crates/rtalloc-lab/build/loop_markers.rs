//! Finds the loops that a source marks with `loop_bound!`.

use proc_macro2::{TokenStream, TokenTree};
use syn::spanned::Spanned as _;
use syn::visit::Visit;
use syn::{Block, Error, ExprForLoop, ExprLoop, ExprWhile, Macro, Stmt};

/// A marked loop.
pub struct MarkedLoop {
    /// The line of its keyword.
    pub first_line: usize,
    /// The line of the brace that closes its body.
    pub last_line: usize,
    /// The argument of the marker: an expression of type `LoopBound`.
    pub bound: TokenStream,
}

/// The marked loops of a source file.
///
/// # Errors
///
/// The source does not parse, a marker is not the first statement of a loop's body, or the arguments of another macro
/// contain one: they are not parsed.
pub fn marked_loops(source: &str) -> Result<Vec<MarkedLoop>, Error> {
    let mut finder = Finder { loops: Vec::new(), error: None };
    finder.visit_file(&syn::parse_file(source)?);
    finder.error.map_or(Ok(finder.loops), Err)
}

const MARKER: &str = "loop_bound";

struct Finder {
    loops: Vec<MarkedLoop>,
    error: Option<Error>,
}

impl Finder {
    /// Visits a loop's body without the marker at its start.
    fn visit_body(&mut self, first_line: usize, body: &Block) {
        let mut statements = &body.stmts[..];
        if let [Stmt::Macro(first), rest @ ..] = statements
            && is_marker(&first.mac)
        {
            let last_line = body.brace_token.span.close().end().line;
            self.loops.push(MarkedLoop { first_line, last_line, bound: first.mac.tokens.clone() });
            statements = rest;
        }
        statements.iter().for_each(|statement| self.visit_stmt(statement));
    }

    fn refuse(&mut self, place: &Macro, why: &str) {
        self.error.get_or_insert_with(|| Error::new(place.span(), why));
    }
}

impl<'ast> Visit<'ast> for Finder {
    fn visit_expr_while(&mut self, node: &'ast ExprWhile) {
        self.visit_expr(&node.cond);
        self.visit_body(node.while_token.span.start().line, &node.body);
    }

    fn visit_expr_for_loop(&mut self, node: &'ast ExprForLoop) {
        self.visit_expr(&node.expr);
        self.visit_body(node.for_token.span.start().line, &node.body);
    }

    fn visit_expr_loop(&mut self, node: &'ast ExprLoop) {
        self.visit_body(node.loop_token.span.start().line, &node.body);
    }

    fn visit_macro(&mut self, node: &'ast Macro) {
        if is_marker(node) {
            self.refuse(node, "`loop_bound!` must be the first statement of a loop's body, once");
        } else if contains_marker(node.tokens.clone()) {
            self.refuse(node, "`loop_bound!` must not be within another macro");
        }
    }
}

fn is_marker(node: &Macro) -> bool {
    node.path.segments.last().is_some_and(|segment| segment.ident == MARKER)
}

fn contains_marker(tokens: TokenStream) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(ident) => ident == MARKER,
        TokenTree::Group(group) => contains_marker(group.stream()),
        TokenTree::Punct(_) | TokenTree::Literal(_) => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(source: &str) -> Vec<(usize, usize, String)> {
        let loops = marked_loops(source).expect("valid markers").into_iter();
        loops.map(|one| (one.first_line, one.last_line, one.bound.to_string().replace(' ', ""))).collect()
    }

    fn refused(source: &str, line: usize, why: &str) {
        let error = marked_loops(source).err().expect("an error");
        assert_eq!((error.span().start().line, error.to_string().as_str()), (line, why));
    }

    const FIRST_AND_ONCE: &str = "`loop_bound!` must be the first statement of a loop's body, once";

    #[test]
    fn a_marked_loop_goes_from_its_keyword_to_the_end_of_its_body() {
        let source = "fn search() {
            let found = 'blocks: loop {
                loop_bound!(LoopBound::FreeBlocks);
                while let Some(x) = next()
                    && x != '}'
                {
                    crate::loop_bound!(LoopBound::Fixed(3));
                }
                while unmarked() {
                    for _ in 0..8 {
                        loop_bound!(LoopBound::PageGranules { per_iteration: 8 });
                    }
                }
            };
        }";
        let expected = [
            (2, 14, "LoopBound::FreeBlocks".to_owned()),
            (4, 8, "LoopBound::Fixed(3)".to_owned()),
            (10, 12, "LoopBound::PageGranules{per_iteration:8}".to_owned()),
        ];
        assert_eq!(found(source), expected);
    }

    #[test]
    fn a_marker_outside_a_loop_is_refused() {
        refused("fn f() {\n    loop_bound!(LoopBound::Words);\n    while g() {}\n}", 2, FIRST_AND_ONCE);
        refused(
            "fn f() {\n    loop {\n        if g() {\n            loop_bound!(x);\n        }\n    }\n}",
            4,
            FIRST_AND_ONCE,
        );
    }

    #[test]
    fn two_markers_in_one_loop_are_refused() {
        let source = "fn f() {\n    loop {\n        loop_bound!(LoopBound::Words);\n        loop_bound!(LoopBound::Pages);\n    }\n}";
        refused(source, 4, FIRST_AND_ONCE);
    }

    #[test]
    fn a_marker_within_another_macro_is_refused() {
        let why = "`loop_bound!` must not be within another macro";
        refused("macro_rules! m {\n    () => { loop { loop_bound!(LoopBound::Words); } };\n}", 1, why);
    }
}
