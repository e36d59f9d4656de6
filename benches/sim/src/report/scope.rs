//! What the evidence is evidence of: said first, in the same words wherever it is shown.

/// A part of it.
pub(super) struct Part {
    pub(super) title: &'static str,
    pub(super) text: &'static str,
}

/// All scenarios.
pub(super) const SIMULATED: Part = Part {
    title: "Simulated",
    text: "All scenarios. The decisions are those of the gateway: the same code, run in virtual time. Clients, engines, \
           the network and the statistics that engines report are models; no GPU and no real engine had a part in it. \
           The same seed gives the same figures on every machine. Ranges are the least and the greatest over seeds. \
           The bound is the most that any routing could have made of the engines; no real router reaches all of it, \
           since it knows neither the future nor the present of other gateways.",
};

/// The peers.
pub(super) const MEASURED: Part = Part {
    title: "Measured",
    text: "The comparison with other proxies: real processes, real sockets, one machine, loopback. The engine behind \
           them answers on time and computes nothing. Figures are medians over alternating rounds with the least and \
           the greatest, and are to be compared with each other, not with those of another machine or another day.",
};

/// When there are none.
pub(super) const NOT_MEASURED: Part =
    Part { title: "Measured", text: "Nothing: this copy was made of simulated results alone." };

/// Above the tables of the scenarios.
pub(super) const FIGURES: &str = "Goodput counts requests that ended whole and whose first token came within the SLO. TTFT and e2e are counted from a \
     request's arrival at the gateway. Reuse is the share of prompt tokens that were found in caches; overflow the share \
     of requests that were sent beyond their affinity group; fairness is Jain's index over sessions, 1 when all fare alike.";

/// How to have it all again.
pub(super) const COMMAND: &str = "cargo xtask evidence";
