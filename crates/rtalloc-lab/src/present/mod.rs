//! Tables, plots and the report: what a person sees of results.
