//! Journals, folds, the index, artefacts and the store.
