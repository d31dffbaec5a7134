//! Any text as a condition: no panic, and one that is read shows itself as it is read again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tokenring::stats::Gate;

fuzz_target!(|text: &str| {
    for gate in [Gate::parse(text), Gate::of_sla(text)].into_iter().flatten() {
        assert!(gate.threshold().is_finite() && !gate.holds(f64::NAN));
        let shown = gate.to_string();
        let again = Gate::parse(&shown).unwrap();
        assert_eq!(again.to_string(), shown);
        assert_eq!((again.tag, again.stat, again.op), (gate.tag, gate.stat, gate.op));
        assert_eq!(again.limit, gate.limit);
    }
});
