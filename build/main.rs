//! Builds the dashboard that is embedded in the binary: npm works on a copy of `dashboard/` in `OUT_DIR`, and only when
//! one of its inputs has changed. Without the feature `dashboard` no step runs and no Node.js is needed.
//!
//! The embedded files are a generated list of `include_bytes!`, compressed here once. A crate that embeds folders would
//! bring no more than this, and each answer is a look-up in a list of constants.

use std::{
    collections::BTreeMap,
    fmt::Write,
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    io,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

/// Names that are no inputs: left by npm or by people, only for tests, or generated from `docs/openapi.json`.
const IGNORED_NAMES: [&str; 5] = ["node_modules", "dist", ".vite", "journeys", "README.md"];
const GENERATED_SUFFIX: &str = ".gen.d.ts";

const BUILD_WITHOUT_HINT: &str = "or build without the dashboard: cargo build --no-default-features";

fn main() -> ExitCode {
    println!("cargo::rerun-if-changed=build");
    if variable("CARGO_FEATURE_DASHBOARD").is_none() {
        return ExitCode::SUCCESS;
    }
    match build() {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("The dashboard could not be built: {why}");
            ExitCode::FAILURE
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "this is how cargo speaks to a build script")]
fn variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).map(PathBuf::from)
}

fn build() -> Result<(), String> {
    let root = variable("CARGO_MANIFEST_DIR").ok_or("cargo does not say where the package is")?;
    let out = variable("OUT_DIR").ok_or("cargo does not say where to write")?;
    let source = root.join("dashboard");
    if !source.join("package.json").exists() {
        return Err(format!(
            "there is no dashboard/package.json; get the whole source, {BUILD_WITHOUT_HINT}"
        ));
    }
    let mut inputs = BTreeMap::new();
    read_all(&source, Path::new("dashboard"), &mut inputs)?;
    let description = read(&root.join("docs/openapi.json"))?;
    inputs.insert(PathBuf::from("docs/openapi.json"), description);
    // File by file: for a folder cargo would watch every file in it, also those that tests make. A file that is added is
    // found because another one begins to use it.
    for name in inputs.keys() {
        println!("cargo::rerun-if-changed={}", name.display());
    }
    let script = read(&root.join("build/compress.mjs"))?;
    let (made_of, stamp) = (digest(&(&inputs, &script)), out.join("dashboard.stamp"));
    if is_stamped(&stamp, made_of) && out.join("dashboard.rs").exists() {
        return Ok(());
    }
    copy(&inputs, &out)?;
    run_npm(&inputs, &out)?;
    let embedded = out.join("embedded");
    clear(&embedded, &[])?;
    let mut compress = Command::new("node");
    compress.arg(root.join("build/compress.mjs")).arg(out.join("dashboard/dist")).arg(&embedded);
    let list = run(compress)?;
    write(&out.join("dashboard.rs"), generated(&list)?.as_bytes())?;
    write(&stamp, made_of.to_string().as_bytes())
}

/// Returns the folder's direct entries that are inputs.
fn entries(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let listed = fs::read_dir(folder).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let listed = listed.map_err(|error| format!("{}: {error}", folder.display()))?;
    let counts = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        !IGNORED_NAMES.contains(&name) && !name.ends_with(GENERATED_SUFFIX)
    };
    Ok(listed.into_iter().map(|entry| entry.path()).filter(counts).collect())
}

fn read_all(folder: &Path, name: &Path, into: &mut BTreeMap<PathBuf, Vec<u8>>) -> Result<(), String> {
    for path in entries(folder)? {
        let name = name.join(path.file_name().unwrap_or_default());
        if path.is_dir() {
            read_all(&path, &name, into)?;
        } else {
            into.insert(name, read(&path)?);
        }
    }
    Ok(())
}

/// Makes the copy equal to the source; packages that are installed there stay.
fn copy(inputs: &BTreeMap<PathBuf, Vec<u8>>, out: &Path) -> Result<(), String> {
    clear(&out.join("dashboard"), &["node_modules"])?;
    for (name, bytes) in inputs {
        let path = out.join(name);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        }
        write(&path, bytes)?;
    }
    Ok(())
}

/// Installs packages only when their pins change, then builds. Packages in npm's cache are not fetched.
fn run_npm(inputs: &BTreeMap<PathBuf, Vec<u8>>, out: &Path) -> Result<(), String> {
    let folder = out.join("dashboard");
    let pins =
        ["dashboard/package.json", "dashboard/package-lock.json"].map(|name| inputs.get(Path::new(name)));
    let (pinned, stamp) = (digest(&pins), out.join("packages.stamp"));
    if !is_stamped(&stamp, pinned) || !folder.join("node_modules").exists() {
        // An installation that stops half-way has no stamp, so it is repeated.
        let _ = fs::remove_file(&stamp);
        let mut install = Command::new("npm");
        install.args([
            "ci",
            "--include=dev",
            "--prefer-offline",
            "--ignore-scripts",
            "--no-audit",
            "--no-fund",
        ]);
        run(in_folder(install, &folder))?;
        write(&stamp, pinned.to_string().as_bytes())?;
    }
    let mut build = Command::new("npm");
    build.args(["run", "build"]);
    run(in_folder(build, &folder)).map(drop)
}

fn in_folder(mut command: Command, folder: &Path) -> Command {
    command.current_dir(folder);
    command
}

/// Runs a command and returns its standard output. On failure the error holds standard output and standard error.
fn run(mut command: Command) -> Result<String, String> {
    let shown = format!("{command:?}");
    let output = command.output().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            format!("Node.js is missing. Install Node.js 20.19 or newer with npm, {BUILD_WITHOUT_HINT}")
        }
        _ => format!("{shown}: {error}"),
    })?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(said);
    }
    let complained = String::from_utf8_lossy(&output.stderr);
    Err(format!("{shown} ended with {}:\n{said}{complained}\nMend it, {BUILD_WITHOUT_HINT}", output.status))
}

/// Renders the list as Rust code. A line is: path, digest, whether there is a gzip and a brotli version of it.
fn generated(list: &str) -> Result<String, String> {
    let mut code = String::from("pub(super) static FILES: &[super::File] = &[\n");
    let mut has_index = false;
    for line in list.lines() {
        let [path, etag, gzip, brotli] = line.split('\t').collect::<Vec<_>>()[..] else {
            return Err(format!("build/compress.mjs wrote something odd: {line}"));
        };
        has_index |= path == "/index.html";
        let bytes =
            |suffix: &str| format!("include_bytes!(concat!(env!(\"OUT_DIR\"), \"/embedded{path}{suffix}\"))");
        let compressed = |is_there: &str, suffix| match is_there {
            "1" => format!("Some({})", bytes(suffix)),
            _ => "None".to_owned(),
        };
        let _ = writeln!(
            code,
            "    super::File {{ path: {path:?}, content_type: {:?}, etag: \"W/\\\"{etag}\\\"\", plain: {}, gzip: {}, brotli: {} }},",
            content_type(path)?,
            bytes(""),
            compressed(gzip, ".gz"),
            compressed(brotli, ".br"),
        );
    }
    code.push_str("];\n");
    if has_index { Ok(code) } else { Err("npm run build made no dist/index.html".to_owned()) }
}

/// Returns the content type of a file. Browsers do not guess it, so each must be known here.
fn content_type(path: &str) -> Result<&'static str, String> {
    let types = [
        ("html", "text/html; charset=utf-8"),
        ("js", "text/javascript; charset=utf-8"),
        ("css", "text/css; charset=utf-8"),
        ("svg", "image/svg+xml"),
        ("json", "application/json"),
        ("txt", "text/plain; charset=utf-8"),
        ("png", "image/png"),
        ("ico", "image/x-icon"),
        ("woff2", "font/woff2"),
    ];
    let extension = path.rsplit('.').next().unwrap_or_default();
    let known = types.iter().find(|(known, _)| *known == extension).map(|(_, name)| *name);
    known.ok_or_else(|| format!("dist{path}: say in build/main.rs what type it has"))
}

fn digest(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

fn is_stamped(stamp: &Path, digest: u64) -> bool {
    fs::read_to_string(stamp).is_ok_and(|text| text == digest.to_string())
}

/// Makes the folder exist and be empty but for `kept`.
fn clear(folder: &Path, kept: &[&str]) -> Result<(), String> {
    let clearing = || -> io::Result<()> {
        fs::create_dir_all(folder)?;
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            let is_kept =
                path.file_name().and_then(|name| name.to_str()).is_some_and(|name| kept.contains(&name));
            match (is_kept, path.is_dir()) {
                (true, _) => {}
                (false, true) => fs::remove_dir_all(&path)?,
                (false, false) => fs::remove_file(&path)?,
            }
        }
        Ok(())
    };
    clearing().map_err(|error| format!("{}: {error}", folder.display()))
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), String> {
    fs::write(path, bytes).map_err(|error| format!("{}: {error}", path.display()))
}
