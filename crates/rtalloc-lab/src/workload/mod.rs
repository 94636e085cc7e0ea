//! Generators of traces: the models of the literature.
