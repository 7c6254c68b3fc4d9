//! Shared objects and their kernels, and what is wrong with them.

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

use common::{device, saxpy_kernel};
use hcq_std::{Arg, ArgKind, Device, Error, Grid, HCQ_H, ScalarType};

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

const KERNELS: &str = r#"
#include "hcq.h"

HCQ_KERNEL(scale, float factor; const float *in; float *out; uint32_t n;)
{
    HCQ_FOR_ITEMS(i, group, 0, args->n)
        args->out[i] = args->factor * args->in[i];
}

struct plain_args { uint8_t a; uint64_t *out; uint16_t b; };
void plain(const struct plain_args *args, const struct hcq_group *group)
{
    args->out[group->group[0]] = args->a * 1000u + args->b;
}

HCQ_EXPORT const char broken_hcq_args[] = "struct huh *x;";
void broken(const void *args, const struct hcq_group *group) { (void)args; (void)group; }
"#;

/// A folder that is removed again.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> std::io::Result<Self> {
        let path = std::env::temp_dir().join(format!("hcq-std-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path)?;
        Ok(Self(path))
    }

    /// Compiles C, or says that there is no compiler.
    fn compile(&self, name: &str, source: &str) -> std::io::Result<Option<PathBuf>> {
        std::fs::write(self.0.join("hcq.h"), HCQ_H)?;
        let (c, so) = (
            self.0.join(format!("{name}.c")),
            self.0.join(format!("{name}.so")),
        );
        std::fs::write(&c, source)?;
        let cc = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
        let output = Command::new(&cc)
            .args(["-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-I"])
            .arg(&self.0)
            .arg(&c)
            .arg("-o")
            .arg(&so)
            .output();
        let Ok(output) = output else {
            println!("skipped: programs: no C compiler `{}`", cc.display());
            return Ok(None);
        };
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(Some(so))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn load(device: &Device, path: &Path) -> std::result::Result<hcq_std::Module, Error> {
    // SAFETY: the objects of these tests have no constructors.
    unsafe { device.load(path) }
}

#[test]
fn kernels_from_a_shared_object() -> Result {
    let folder = Folder::new("kernels")?;
    let Some(path) = folder.compile("kernels", KERNELS)? else {
        return Ok(());
    };
    let device = device();
    let module = load(&device, &path)?;
    assert_eq!(module.path(), path.canonicalize()?);

    let scale = module.kernel("scale")?;
    let arguments = scale.arguments().ok_or("it has a signature")?;
    assert_eq!(scale.name(), "scale");
    let names: Vec<_> = arguments.iter().map(ToString::to_string).collect();
    assert_eq!(names, ["f32 factor", "const f32 *in", "f32 *out", "u32 n"]);
    let kinds: Vec<_> = arguments.iter().map(|a| (a.kind, a.read_only)).collect();
    assert_eq!(
        kinds,
        [
            (ArgKind::Scalar, true),
            (ArgKind::ConstBuffer, true),
            (ArgKind::Buffer, false),
            (ArgKind::Scalar, true)
        ]
    );
    assert_eq!(arguments[0].ty, Some(ScalarType::F32));

    let n = 10_000u32;
    let input = device.alloc_from(&(0..n).map(|i| i as f32).collect::<Vec<_>>())?;
    let output = device.alloc::<f32>(n as usize)?;
    let mut commands = device.compute_queue(0)?.record();
    let args = [
        0.5f32.into(),
        Arg::buffer(&input),
        Arg::buffer(&output),
        n.into(),
    ];
    // SAFETY: `n` elements each.
    unsafe { commands.exec(&scale, &args, Grid::new(n.div_ceil(64), 64)) }?;
    // The object stays loaded for the work in flight, though nobody holds it.
    let point = commands.submit()?;
    let plain = module.kernel("plain")?;
    drop((scale, module));
    point.wait()?;
    assert!(
        output
            .to_vec()?
            .iter()
            .enumerate()
            .all(|(i, &v)| v == i as f32 / 2.0)
    );

    // Without a signature arguments are laid out as C does.
    assert!(plain.arguments().is_none());
    let out = device.alloc::<u64>(3)?;
    // SAFETY: three groups, three elements; the types are those of the struct.
    unsafe {
        commands.exec(
            &plain,
            &[7u8.into(), (&out).into(), 65_000u16.into()],
            Grid::new(3, 1),
        )
    }?;
    commands.submit()?.wait()?;
    assert_eq!(out.to_vec()?, [72_000; 3]);
    Ok(())
}

#[test]
fn what_is_wrong_with_an_object_is_said() -> Result {
    let folder = Folder::new("wrong")?;
    let device = device();
    let missing = folder.0.join("missing.so");
    let e = load(&device, &missing).expect_err("not there");
    assert!(
        e.to_string().contains("missing.so") && e.to_string().contains("check the path"),
        "{e}"
    );
    let text = folder.0.join("text.so");
    std::fs::write(&text, "not a shared object")?;
    let e = load(&device, &text).expect_err("no object");
    assert!(
        matches!(
            &e,
            Error::File {
                operation: "loading",
                ..
            }
        ),
        "{e}"
    );
    assert!(e.to_string().contains("cc -shared"), "{e}");
    assert!(load(&device, Path::new("a\0b")).is_err());
    assert!(load(&device, &folder.0).is_err());

    let Some(path) = folder.compile("kernels", KERNELS)? else {
        return Ok(());
    };
    let module = load(&device, &path)?;
    let e = module.kernel("skale").expect_err("misspelt");
    assert!(
        matches!(&e, Error::MissingSymbol { symbol, .. } if symbol == "skale"),
        "{e}"
    );
    assert!(e.to_string().contains("kernels.so"), "{e}");
    for name in ["", "a\0b"] {
        assert!(matches!(
            module.kernel(name),
            Err(Error::MissingSymbol { .. })
        ));
    }
    let e = module.kernel("broken").expect_err("no type of C");
    assert!(
        matches!(&e, Error::Signature { kernel, .. } if kernel == "broken"),
        "{e}"
    );
    assert!(e.to_string().contains("struct huh *x;"), "{e}");

    // A symbol that is not defined anywhere is an error of loading, not the end of the process later.
    let unresolved =
        "extern int nowhere_to_be_found(void); int f(void) { return nowhere_to_be_found(); }";
    let Some(path) = folder.compile("unresolved", unresolved)? else {
        return Ok(());
    };
    let e = load(&device, &path).expect_err("unresolved");
    assert!(e.to_string().contains("nowhere_to_be_found"), "{e}");
    Ok(())
}

#[test]
fn signatures_of_registered_functions_are_checked() -> Result {
    unsafe extern "C" fn nothing(_: *const std::ffi::c_void, _: *const hcq_std::Group) {}
    let device = device();
    // SAFETY: the function reads nothing.
    let none = unsafe { device.register("none", "", nothing) }?;
    assert_eq!(none.arguments().map(<[_]>::len), Some(0));
    // SAFETY: as above.
    let e = unsafe { device.register("bad", "float x y;", nothing) }.expect_err("no declaration");
    assert!(
        e.to_string().contains("bad") && e.to_string().contains("float x y;"),
        "{e}"
    );
    let mut commands = device.compute_queue(0)?.record();
    // SAFETY: as above.
    unsafe { commands.exec(&none, &[], Grid::new([2, 2, 2], 1)) }?;
    commands.submit()?.wait()?;

    // Bytes are elements of any type; numbers of other sizes are not.
    let kernel = saxpy_kernel(&device);
    let bytes = device.alloc::<u8>(64)?;
    let args = |n: Arg<'static>| [1.0f32.into(), Arg::buffer(&bytes), Arg::buffer(&bytes), n];
    // SAFETY: sixteen floats.
    unsafe { commands.exec(&kernel, &args(16i32.into()), Grid::new(1, 16)) }?;
    for wrong in [
        Arg::from(16u64),
        Arg::from(16u16),
        Arg::from(16.0f32),
        Arg::scalar(16u32, 8),
        Arg::bytes(&[0; 4]),
    ] {
        // SAFETY: refused.
        let e = unsafe { commands.exec(&kernel, &args(wrong), Grid::new(1, 16)) }.map(|_| ());
        assert!(
            matches!(e, Err(Error::Argument { index: 3, .. })),
            "{wrong:?}: {e:?}"
        );
    }
    Ok(())
}

#[test]
fn kernels_end_with_their_handles() -> Result {
    unsafe extern "C" fn nothing(_: *const std::ffi::c_void, _: *const hcq_std::Group) {}
    let (device, other) = (device(), device());
    // SAFETY: the function reads nothing.
    let kernel = unsafe { device.register("nothing", "", nothing) }?;
    let mut commands = other.compute_queue(0)?.record();
    // SAFETY: refused.
    let e = unsafe { commands.exec(&kernel, &[], Grid::new(1, 1)) }.map(|_| ());
    assert!(matches!(e, Err(Error::OtherDevice { what: "kernel" })));
    Ok(())
}
