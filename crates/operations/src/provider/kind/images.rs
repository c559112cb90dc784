//! Node images: which one gives a Kubernetes version, by the release of kind that runs it.
//!
//! The digests are those of kind's release notes. A tag alone can name an image that was built for another release.

use super::version::KindVersion;
use klab_lab::spec::KubernetesVersion;

/// An image: the release of kind that it was published with, its minor version, its patch version, its digest.
type Published = (u32, u32, u32, &'static str);

/// The newest release first, the default of each before its others.
const IMAGES: &[Published] = &[
    (33, 37, 0, "a1ed56cfb0e7b93589bdf97c8cd566405a265939e3620fc4f5de89adff580ae5"),
    (33, 36, 4, "099e049362a1526b2db71494e1947aae99bd16290d7c895f2b7ea312e3cbfaed"),
    (33, 35, 8, "07b2536e30b803ed61d1677a79df6115f798ce64c80f9e22f6ed45afd09323c0"),
    (33, 34, 11, "44e222ee2132dab25ff87301682f89eb82c7880ea3a1bf543bfe9708fd08d67d"),
    (32, 36, 1, "3489c7674813ba5d8b1a9977baea8a6e553784dab7b84759d1014dbd78f7ebd5"),
    (32, 35, 5, "ce977ae6d65918d0b58a5f8b5e940429c2ce42fa3a5619ec2bbc60b949c0ac95"),
    (32, 34, 8, "02722c2dedddcfc00febf5d27fbeb9b7b2c14294c82109ff4a85d89ac9ba3256"),
    (32, 33, 12, "3f5c8443c620245e4d355cfe09e96a91ead32ceaa569d3f1ca9edf0cb2fe2ff4"),
    (31, 35, 0, "452d707d4862f52530247495d180205e029056831160e22870e37e3f6c1ac31f"),
    (31, 34, 3, "08497ee19eace7b4b5348db5c6a1591d7752b164530a36f855cb0f2bdcbadd48"),
    (31, 33, 7, "d26ef333bdb2cbe9862a0f7c3803ecc7b4303d8cea8e814b481b09949d353040"),
    (31, 32, 11, "5fc52d52a7b9574015299724bd68f183702956aa4a2116ae75a63cb574b35af8"),
    (31, 31, 14, "6f86cf509dbb42767b6e79debc3f2c32e4ee01386f0489b3b2be24b0a55aac2b"),
    (30, 34, 0, "7416a61b42b1662ca6ca89f02028ac133a309a2a30ba309614e8ec94d976dc5a"),
    (30, 33, 4, "25a6018e48dfcaee478f4a59af81157a437f15e6e140bf103f85a2e7cd0cbbf2"),
    (30, 32, 8, "abd489f042d2b644e2d033f5c2d900bc707798d075e8186cb65e3f1367a9d5a1"),
    (30, 31, 12, "0f5cc49c5e73c0c2bb6e2df56e7df189240d83cf94edfa30946482eb08ec57d2"),
    (29, 33, 1, "050072256b9a903bd914c0b2866828150cb229cea0efe5892e2b644d5dd3b34f"),
    (29, 32, 5, "e3b2327e3a5ab8c76f5ece68936e4cafaa82edf58486b769727ab0b3b97a5b0d"),
    (29, 31, 9, "b94a3a6c06198d17f59cca8c6f486236fa05e2fb359cbd75dabbfc348a10b211"),
    (29, 30, 13, "397209b3d947d154f6641f2d0ce8d473732bd91c87d9575ade99049aa33cd648"),
    (28, 33, 1, "8d866994839cd096b3590681c55a6fa4a071fdaf33be7b9660e5697d2ed13002"),
    (28, 32, 5, "36187f6c542fa9b78d2d499de4c857249c5a0ac8cc2241bef2ccd92729a7a259"),
    (28, 31, 9, "156da58ab617d0cb4f56bbdb4b493f4dc89725505347a4babde9e9544888bb92"),
    (28, 30, 13, "8673291894dc400e0fb4f57243f5fdc6e355ceaa765505e0e73941aa1b6e0b80"),
    (27, 32, 2, "f226345927d7e348497136874b6d207e0b32cc52154ad8323129352923a3142f"),
    (27, 33, 0, "02f73d6ae3f11ad5d543f16736a2cb2a63a300ad60e81dac22099b0b04784a4e"),
    (27, 31, 6, "28b7cbb993dfe093c76641a0c95807637213c9109b761f1d422c2400e22b8e87"),
    (27, 30, 10, "4de75d0e82481ea846c0ed1de86328d821c1e6a6a91ac37bf804e5313670e507"),
    (27, 29, 14, "8703bd94ee24e51b778d5556ae310c6c0fa67d761fae6379c8e0bb480e6fea29"),
];

/// A node image and the Kubernetes in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeImage {
    /// The reference docker takes.
    pub reference: String,
    /// The version in it, as far as its name tells.
    pub kubernetes: Option<KubernetesVersion>,
}

impl NodeImage {
    /// An image the author names; its tag tells the version.
    pub fn named(reference: &str) -> Self {
        Self { reference: reference.to_owned(), kubernetes: version_of(reference) }
    }
}

/// The image for a wanted version on a release of kind: the one published with that release, else with the newest older
/// one, else with a newer one, else the tag without a digest. Without a wanted version the release's own default.
pub fn node_image(wanted: Option<KubernetesVersion>, kind: KindVersion) -> NodeImage {
    let (mut newer, older): (Vec<&Published>, Vec<&Published>) = IMAGES.iter().partition(|image| image.0 > kind.minor);
    newer.sort_by_key(|image| image.0);
    let mut nodes = older.into_iter().chain(newer);
    let Some(wanted) = wanted else {
        return nodes.next().map_or_else(|| NodeImage::named("kindest/node:latest"), |node| published(*node));
    };
    let fits = |node: &&Published| node.1 == wanted.minor && wanted.patch.is_none_or(|patch| node.2 == patch);
    match nodes.find(fits) {
        Some(node) => published(*node),
        // A tag `v1.28` does not exist: where the patch is unknown, its first one is the best there is.
        None => NodeImage::named(&format!("kindest/node:v1.{}.{}", wanted.minor, wanted.patch.unwrap_or(0))),
    }
}

/// The image among those on this machine that serves in place of one that cannot be had: of the wanted minor version, or of
/// any that this kind knows where none is wanted; the newest.
pub fn at_hand(wanted: Option<KubernetesVersion>, kind: KindVersion, there: &[String]) -> Option<NodeImage> {
    let newest = IMAGES.iter().filter(|image| image.0 <= kind.minor).map(|image| image.1).max()?;
    let images = there.iter().map(|reference| NodeImage::named(reference));
    let serves = |image: &NodeImage| {
        image.kubernetes.is_some_and(|version| match wanted {
            Some(wanted) => is_of(version, wanted),
            None => version.minor <= newest,
        })
    };
    let number = |image: &NodeImage| image.kubernetes.map(|version| (version.minor, version.patch));
    images.filter(serves).max_by_key(number)
}

/// Whether a version is the wanted one, as exactly as that is said.
pub fn is_of(version: KubernetesVersion, wanted: KubernetesVersion) -> bool {
    version.minor == wanted.minor && wanted.patch.is_none_or(|patch| version.patch == Some(patch))
}

fn published((_, minor, patch, digest): Published) -> NodeImage {
    NodeImage {
        reference: format!("kindest/node:v1.{minor}.{patch}@sha256:{digest}"),
        kubernetes: Some(KubernetesVersion { minor, patch: Some(patch) }),
    }
}

/// The version a reference's tag tells: `kindest/node:v1.36.4@sha256:…`.
fn version_of(reference: &str) -> Option<KubernetesVersion> {
    let name = reference.split('@').next()?;
    let (_, tag) = name.rsplit_once(':')?;
    let mut numbers = tag.strip_prefix("v1.")?.split(['.', '-', '+']);
    let minor = numbers.next()?.parse().ok()?;
    Some(KubernetesVersion { minor, patch: numbers.next().and_then(|patch| patch.parse().ok()) })
}

/// The load balancer that kind puts before several control planes; it is pulled only when the nodes are being prepared.
pub fn load_balancer(kind: KindVersion) -> &'static str {
    match kind.minor {
        ..=30 => "docker.io/kindest/haproxy:v20230606-42a2262b",
        31 => "docker.io/kindest/haproxy:v20251211-v0.29.0-alpha-100-g82a92c5d",
        _ => "docker.io/envoyproxy/envoy:v1.36.2",
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn version(text: &str) -> KubernetesVersion {
        let (minor, patch) = text.split_once('.').map_or((text, None), |(minor, patch)| (minor, Some(patch)));
        KubernetesVersion { minor: minor.parse().unwrap(), patch: patch.map(|patch| patch.parse().unwrap()) }
    }

    #[test]
    fn image_is_that_of_the_installed_release_else_of_the_nearest() {
        for (kind, wanted, expected) in [
            (33, Some("36"), "kindest/node:v1.36.4@sha256:099e0493"),
            (32, Some("36"), "kindest/node:v1.36.1@sha256:3489c767"),
            // 0.27 has no image of 1.36: the oldest release that has one built it most alike.
            (27, Some("36"), "kindest/node:v1.36.1@sha256:3489c767"),
            (33, Some("33"), "kindest/node:v1.33.12@sha256:3f5c8443"),
            (28, Some("33"), "kindest/node:v1.33.1@sha256:8d866994"),
            (29, Some("33.1"), "kindest/node:v1.33.1@sha256:05007225"),
            (33, None, "kindest/node:v1.37.0@sha256:a1ed56cf"),
            (27, None, "kindest/node:v1.32.2@sha256:f2263459"),
        ] {
            let image = node_image(wanted.map(version), KindVersion::new(kind, 0));
            assert!(image.reference.starts_with(expected), "kind 0.{kind}, {wanted:?}: {}", image.reference);
        }
    }

    #[test]
    fn version_without_a_known_image_is_asked_for_by_tag() {
        let image = node_image(Some(version("36.2")), KindVersion::new(33, 0));
        assert_eq!(image, NodeImage::named("kindest/node:v1.36.2"));
        assert_eq!(image.kubernetes, Some(version("36.2")));
    }

    #[test]
    fn image_at_hand_serves_where_its_version_fits() {
        let there: Vec<String> = [
            "kindest/node:v1.35.0",
            "kindest/node:v1.36.2",
            "kindest/node:v1.36.0",
            "kindest/node:<none>",
            "own:v1.99.0",
        ]
        .map(str::to_owned)
        .into();
        for (wanted, expected) in [
            (Some("36"), Some("kindest/node:v1.36.2")),
            (Some("36.0"), Some("kindest/node:v1.36.0")),
            (Some("36.1"), None),
            (Some("34"), None),
            (None, Some("kindest/node:v1.36.2")),
        ] {
            let image = at_hand(wanted.map(version), KindVersion::new(33, 0), &there);
            assert_eq!(image.map(|image| image.reference).as_deref(), expected, "{wanted:?}");
        }
    }

    #[test]
    fn digests_are_whole_and_every_release_has_its_versions_once() {
        let versions: BTreeSet<(u32, u32)> = IMAGES.iter().map(|image| (image.0, image.1)).collect();
        assert_eq!(versions.len(), IMAGES.len());
        for (.., digest) in IMAGES {
            assert!(digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit()), "{digest}");
        }
    }

    #[test]
    fn versions_are_read_from_tags() {
        for (reference, expected) in [
            ("kindest/node:v1.36.2", Some("36.2")),
            ("registry:5000/kindest/node:v1.30.0-rc.1@sha256:00", Some("30.0")),
            ("registry:5000/own/node", None),
            ("own/node:latest", None),
        ] {
            assert_eq!(NodeImage::named(reference).kubernetes, expected.map(version), "{reference}");
        }
    }
}
