//! Harness for black-box tests.
