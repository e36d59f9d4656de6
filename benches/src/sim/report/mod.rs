#[derive(Clone, Debug, serde::Deserialize)]
pub(super) struct PlotSpec {}
