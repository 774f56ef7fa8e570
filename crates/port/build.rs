//! Builds the C shim around DPDK if the feature `dpdk` is on.

fn main() {
    #[cfg(feature = "dpdk")]
    dpdk::build();
}

#[cfg(feature = "dpdk")]
mod dpdk {
    /// The oldest version of DPDK with the functions that the shim uses.
    const VERSION_MIN: &str = "22.11";

    /// The libraries that the shim calls. DPDK finds its drivers itself when it starts; `rte_net_ring`
    /// is the only driver that the shim calls directly.
    const LIBRARIES: [&str; 7] = [
        "rte_ethdev",
        "rte_net_ring",
        "rte_mbuf",
        "rte_mempool",
        "rte_ring",
        "rte_log",
        "rte_eal",
    ];

    pub(crate) fn build() {
        println!("cargo::rerun-if-changed=src/dpdk/shim.c");
        let found = pkg_config::Config::new()
            .atleast_version(VERSION_MIN)
            .cargo_metadata(false)
            .probe("libdpdk");
        let library = match found {
            Ok(library) => library,
            Err(error) => {
                println!(
                    "cargo::error=the feature dpdk needs DPDK {VERSION_MIN} or newer with its headers \
                     (Debian: libdpdk-dev; ./setup installs it): {error}"
                );
                return;
            }
        };
        let mut shim = cc::Build::new();
        shim.file("src/dpdk/shim.c")
            .includes(&library.include_paths)
            .flag("-include")
            .flag("rte_config.h")
            .define("ALLOW_EXPERIMENTAL_API", None)
            .warnings(true)
            // A debug build is for finding bugs in Rust; an unoptimized shim would only hide races.
            .opt_level(3);
        if std::env::var("CARGO_CFG_TARGET_ARCH").is_ok_and(|arch| arch == "x86_64") {
            // DPDK's inline functions need SSE4.2.
            shim.flag("-march=corei7");
        }
        shim.compile("flowatch_dpdk");
        for path in &library.link_paths {
            println!("cargo::rustc-link-search=native={}", path.display());
        }
        for name in LIBRARIES {
            // rte_log became a library of its own in 23.11.
            if name != "rte_log" || library.libs.iter().any(|found| found == name) {
                println!("cargo::rustc-link-lib=dylib={name}");
            }
        }
    }
}
