//! Compiles the programs of the path `sockmap`.

fn main() {
    clang::compile("sockmap", "the path `sockmap`");
}
