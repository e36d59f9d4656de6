//! What has fields: how a list of names and values changes it, and how it is listed again.

use super::{FieldError, field::Field, scalar::Scalar};

/// A value that is configured by fields.
pub(crate) trait Configured: Sized + 'static {
    /// What its fields lie in.
    type Draft: 'static;

    /// All of them, in the order in which they are listed.
    const FIELDS: &'static [Field<Self::Draft>];

    fn draft(&self) -> Self::Draft;

    /// # Errors
    /// A field that does not go with the others.
    fn of_draft(draft: Self::Draft) -> Result<Self, FieldError>;

    /// Itself, changed by `fields`; everything else stays. What is none of its own fields is given to `other`.
    ///
    /// # Errors
    /// The first field that is out of its bounds, or that `other` refuses; or that does not go with the others.
    fn overlay<'a>(
        &self,
        fields: impl IntoIterator<Item = (&'a str, Scalar<'a>)>,
        mut other: impl FnMut(&str, &Scalar<'_>) -> Result<(), FieldError>,
    ) -> Result<Self, FieldError> {
        let mut draft = self.draft();
        for (name, value) in fields {
            match Self::FIELDS.iter().find(|field| field.name == name) {
                Some(field) => field.read(&mut draft, &value)?,
                None => other(name, &value)?,
            }
        }
        Self::of_draft(draft)
    }

    /// Every field with its value; those that are not set are left out.
    fn values(&self) -> Vec<(&'static str, Scalar<'static>)> {
        let mut draft = self.draft();
        Self::FIELDS.iter().filter_map(|field| Some((field.name, field.write(&mut draft)?))).collect()
    }

    /// The names of its fields.
    fn names() -> Vec<&'static str> {
        Self::FIELDS.iter().map(|field| field.name).collect()
    }
}

/// Algorithms without parameters have no fields.
impl Configured for () {
    type Draft = ();

    const FIELDS: &'static [Field<()>] = &[];

    fn draft(&self) -> Self::Draft {}

    fn of_draft((): Self::Draft) -> Result<Self, FieldError> {
        Ok(())
    }
}

/// Makes `$kind`, in whose fields each has bounds of its own, its own draft.
macro_rules! its_own_draft {
    ($kind:ty) => {
        type Draft = $kind;

        fn draft(&self) -> Self::Draft {
            self.clone()
        }

        fn of_draft(draft: Self::Draft) -> Result<Self, $crate::FieldError> {
            Ok(draft)
        }
    };
}

pub(crate) use its_own_draft;
