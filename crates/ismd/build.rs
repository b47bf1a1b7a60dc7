//! Compiles the programs of the mark.

fn main() {
    clang::compile("mark", "the mark (connections between containers stay on TCP)");
}
