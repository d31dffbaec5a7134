//! perf_analyzer's `profile_export.json` and the `inputs.json` that it is fed with.
