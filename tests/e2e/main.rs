//! Real programs, unchanged, at both ends: the results equal those over TCP, and the bytes move through
//! shared memory when both ends are enabled, over TCP otherwise. Each test runs one pair of programs in all
//! modes.
//!
//! A program that is not installed is skipped with a word, or fails the test when CI_REQUIRE_PROGRAMS is set.

mod advice;
mod brief;
mod containers;
mod counters;
mod databases;
mod far;
mod far_guide;
mod far_kubernetes;
mod far_late;
mod far_places;
mod far_recipes;
mod far_shown;
mod far_successor;
mod far_taken;
mod far_traced;
mod far_unhelped;
mod forbidden;
mod local_domain;
mod login;
mod modules;
mod native;
mod reasons;
mod rows;
mod sanitizer;
mod scripts;
mod shells;
mod support;
mod tour;
mod unhooked;
mod unwritten;
mod web;
