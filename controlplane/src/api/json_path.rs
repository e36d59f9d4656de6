//! Where in a JSON body something stands, as errors name it: `models.m.queue_size`.

use std::fmt::Write;

/// Segments as one path: `models.m.queue_size`, and `models."a.b".queue_size` where a dot would mislead.
pub(super) fn path_of(segments: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    let mut path = String::new();
    for segment in segments {
        let segment = segment.as_ref();
        let is_index = segment.starts_with('[');
        if !path.is_empty() && !is_index {
            path.push('.');
        }
        if !is_index && (segment.is_empty() || segment.contains(['.', '"', '['])) {
            let _ = write!(path, "{segment:?}");
        } else {
            path.push_str(segment);
        }
    }
    path
}
