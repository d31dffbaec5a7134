//! Summary to bytes: console, json, csv, jsonl.
