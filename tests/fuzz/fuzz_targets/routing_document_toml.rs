//! See [`stargate_fuzz::routing_document_toml`].

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| stargate_fuzz::routing_document_toml(input));
