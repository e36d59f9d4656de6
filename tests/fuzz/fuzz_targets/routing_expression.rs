//! See [`stargate_fuzz::routing_expression`].

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| stargate_fuzz::routing_expression(input));
