//! `posthaste-bench`. Everything is in the library.

fn main() -> std::process::ExitCode {
    posthaste_bench::command::main()
}
