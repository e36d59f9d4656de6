//! Why the registry refuses something.

/// Why the registry refuses something; nothing of the request has been applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegistryError {
    /// No such backend.
    #[error("no backend {id:?} is registered; register it with PUT /api/v1/backends/{id}")]
    NotFound {
        /// Its id.
        id: String,
    },
    /// An identity field differs from the registration's.
    #[error(
        "{field} is {registered} in the registration that is in force and cannot become {requested}; \
         DELETE the backend first"
    )]
    IdentityChanged {
        /// The field.
        field: &'static str,
        /// What it is.
        registered: String,
        /// What was asked for.
        requested: String,
    },
    /// The backend comes from the configuration.
    #[error("backend {id:?} comes from the configuration file and is changed only there")]
    Static {
        /// Its id.
        id: String,
    },
    /// A limit is reached.
    #[error("{max} backends are registered, no more are allowed (registration.max_backends)")]
    TooManyBackends {
        /// The limit.
        max: usize,
    },
    /// A registration has no model or too many.
    #[error("found {found} models, allowed: 1 to {max} (registration.max_models_per_backend)")]
    ModelCount {
        /// How many there are.
        found: usize,
        /// The limit.
        max: usize,
    },
    /// Stats of a model that is not registered.
    #[error("model {model:?} is not in the registration of this backend")]
    UnknownModel {
        /// The model.
        model: String,
    },
}
