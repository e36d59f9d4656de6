//! The fields of a method: its algorithm's parameters and its admission.

use crate::{
    Admission, AlgorithmKind, FieldError, Method, Scalar,
    fields::{configured::Configured, excerpt, listed},
};

// === impl Method ===

impl Method {
    /// The algorithm with its defaults, changed by `fields`. A name that comes twice is taken as it comes last.
    ///
    /// # Errors
    /// The first field that is unknown, another algorithm's, or out of its bounds; or that does not go with
    /// the others.
    pub fn with_fields<'a>(
        kind: AlgorithmKind,
        fields: impl IntoIterator<Item = (&'a str, Scalar<'a>)>,
    ) -> Result<Self, FieldError> {
        let defaults = Self { algorithm: kind.with_defaults(), admission: Admission::default() };
        defaults.overlay(fields)
    }

    /// This method, changed by `fields`; everything else stays.
    ///
    /// # Errors
    /// As [`Method::with_fields`].
    pub fn overlay<'a>(
        &self,
        fields: impl IntoIterator<Item = (&'a str, Scalar<'a>)>,
    ) -> Result<Self, FieldError> {
        let mut admission = self.admission.clone();
        let algorithm = self.algorithm.overlay(fields, |name, value| {
            match Admission::FIELDS.iter().find(|field| field.name == name) {
                Some(field) => field.read(&mut admission, value),
                None => Err(unknown(self.algorithm.kind(), name)),
            }
        })?;
        Ok(Self { algorithm, admission })
    }

    /// Every field with its value, the algorithm's first, in the order of their lists; those that are not set are left out.
    pub fn fields(&self) -> Vec<(&'static str, Scalar<'static>)> {
        let mut fields = self.algorithm.fields();
        fields.extend(self.admission.values());
        fields
    }

    /// Names of the fields that a method of this kind has.
    pub fn field_names(kind: AlgorithmKind) -> impl Iterator<Item = &'static str> {
        kind.field_names().into_iter().chain(Admission::names())
    }
}

/// No method of this kind has a field of this name.
fn unknown(kind: AlgorithmKind, name: &str) -> FieldError {
    let others = AlgorithmKind::ALL.into_iter().filter(|other| other.field_names().contains(&name));
    let others: Vec<&str> = others.map(AlgorithmKind::as_str).collect();
    let found = if others.is_empty() {
        "an unknown field".to_owned()
    } else {
        format!("a field of {}, which {} does not use", others.join(", "), kind.as_str())
    };
    let allowed = format!("for {}: {}", kind.as_str(), listed(Method::field_names(kind)));
    FieldError { field: excerpt(name), found, allowed }
}
