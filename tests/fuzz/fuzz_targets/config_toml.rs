//! See [`stargate_fuzz::config_toml`].

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| stargate_fuzz::config_toml(input));
