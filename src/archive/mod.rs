//! Run folders: written whole, by rename, and never over an earlier run.
