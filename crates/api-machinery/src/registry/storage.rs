//! Kinds of volumes and devices: the groups storage and resource.

use super::aspects::{Aspects, Field, InitialStatus, PLAIN, Quota, Validation};
use super::strategy;
use super::usage;
use crate::defaults;
use crate::resource::{
    CSI_DRIVERS, CSI_NODES, CSI_STORAGE_CAPACITIES, DEVICE_CLASSES, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS,
    RESOURCE_SLICES, ResourceId, STORAGE_CLASSES, VOLUME_ATTACHMENTS, VOLUME_ATTRIBUTES_CLASSES,
};
use crate::table;
use crate::validation;

pub(super) static KINDS: &[(ResourceId, Aspects)] = &[
    (
        CSI_DRIVERS,
        Aspects {
            schema: Some("io.k8s.api.storage.v1.CSIDriver"),
            validation: Validation::Each(validation::storage::driver),
            update_validation: Some(validation::storage::driver_update),
            answers_with_deleted: true,
            warnings: Some(validation::warnings::driver),
            columns: "Name:name|AttachRequired:boolean|PodInfoOnMount:boolean|StorageCapacity:boolean|TokenRequests|RequiresRepublish:boolean|Modes|Age",
            cells: table::other::csi_driver,
            ..PLAIN
        },
    ),
    (
        CSI_NODES,
        Aspects {
            schema: Some("io.k8s.api.storage.v1.CSINode"),
            validation: Validation::Each(validation::storage::node),
            answers_with_deleted: true,
            columns: "Name:name|Drivers:integer|Age",
            cells: table::other::csi_node,
            ..PLAIN
        },
    ),
    (
        CSI_STORAGE_CAPACITIES,
        Aspects {
            schema: Some("io.k8s.api.storage.v1.CSIStorageCapacity"),
            validation: Validation::New(validation::storage::capacity),
            update_validation: Some(validation::storage::capacity_update),
            warnings: Some(validation::warnings::capacity),
            columns: "Name:name|Created At:date",
            cells: table::other::name_and_creation,
            ..PLAIN
        },
    ),
    (
        STORAGE_CLASSES,
        Aspects {
            schema: Some("io.k8s.api.storage.v1.StorageClass"),
            defaults: Some(defaults::storage::class),
            validation: Validation::New(validation::storage::class),
            update_validation: Some(validation::storage::class_update),
            answers_with_deleted: true,
            warnings: Some(validation::warnings::class),
            columns: "Name:name|Provisioner|ReclaimPolicy|VolumeBindingMode|AllowVolumeExpansion|Age",
            cells: table::other::storage_class,
            ..PLAIN
        },
    ),
    (
        VOLUME_ATTACHMENTS,
        Aspects {
            schema: Some("io.k8s.api.storage.v1.VolumeAttachment"),
            initial_status: InitialStatus::Empty,
            validation: Validation::Each(validation::storage::attachment),
            update_validation: Some(validation::storage::attachment_update),
            answers_with_deleted: true,
            columns: "Name:name|Attacher:name|PV|Node|Attached:boolean|Age",
            cells: table::other::volume_attachment,
            ..PLAIN
        },
    ),
    (
        VOLUME_ATTRIBUTES_CLASSES,
        Aspects {
            schema: Some("io.k8s.api.storage.v1.VolumeAttributesClass"),
            validation: Validation::Each(validation::storage::attributes_class),
            update_validation: Some(validation::storage::attributes_class_update),
            answers_with_deleted: true,
            columns: "Name:name|DriverName|Age",
            cells: table::other::volume_attributes_class,
            ..PLAIN
        },
    ),
    (
        DEVICE_CLASSES,
        Aspects {
            schema: Some("io.k8s.api.resource.v1.DeviceClass"),
            validation: Validation::Each(validation::devices::class),
            generation: Some(strategy::spec),
            answers_with_deleted: true,
            ..PLAIN
        },
    ),
    (
        RESOURCE_CLAIMS,
        Aspects {
            schema: Some("io.k8s.api.resource.v1.ResourceClaim"),
            initial_status: InitialStatus::Empty,
            defaults: Some(defaults::devices::claim),
            validation: Validation::New(validation::devices::claim),
            update_validation: Some(validation::devices::claim_update),
            quota: Some(Quota::Own { counts: usage::resource_claims_count, usage: usage::resource_claim }),
            answers_with_deleted: true,
            columns: "Name:name|State|Age",
            cells: table::other::resource_claim,
            ..PLAIN
        },
    ),
    (
        RESOURCE_CLAIM_TEMPLATES,
        Aspects {
            schema: Some("io.k8s.api.resource.v1.ResourceClaimTemplate"),
            defaults: Some(defaults::devices::template),
            validation: Validation::Each(validation::devices::template),
            update_validation: Some(validation::devices::template_update),
            answers_with_deleted: true,
            ..PLAIN
        },
    ),
    (
        RESOURCE_SLICES,
        Aspects {
            schema: Some("io.k8s.api.resource.v1.ResourceSlice"),
            validation: Validation::Each(validation::devices::slice),
            update_validation: Some(validation::devices::slice_update),
            generation: Some(strategy::spec),
            answers_with_deleted: true,
            warnings: Some(validation::warnings::resource_slice),
            fields: &[Field::at("spec.driver"), Field::at("spec.nodeName")],
            columns: "Name:name|Node|Driver|Pool|Age",
            cells: table::other::resource_slice,
            ..PLAIN
        },
    ),
];
