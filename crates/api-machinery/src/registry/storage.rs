//! Kinds of volumes and devices: the groups storage and resource.

use super::aspects::{Field, InitialStatus, Quota, Validation};
use super::strategy;
use super::usage;
use crate::defaults;
use crate::table;
use crate::validation;

kinds! {
    CSI_DRIVERS {
        validation: Validation::Each(validation::storage::driver),
        update_validation: Some(validation::storage::driver_update),
        answers_with_deleted: true,
        warnings: Some(validation::warnings::driver),
        columns: "Name:name|AttachRequired:boolean|PodInfoOnMount:boolean|StorageCapacity:boolean|TokenRequests|RequiresRepublish:boolean|Modes|Age",
        cells: table::other::csi_driver,
    }
    CSI_NODES {
        validation: Validation::Each(validation::storage::node),
        answers_with_deleted: true,
        columns: "Name:name|Drivers:integer|Age",
        cells: table::other::csi_node,
    }
    CSI_STORAGE_CAPACITIES {
        validation: Validation::New(validation::storage::capacity),
        update_validation: Some(validation::storage::capacity_update),
        warnings: Some(validation::warnings::capacity),
        columns: "Name:name|Created At:date",
        cells: table::other::name_and_creation,
    }
    STORAGE_CLASSES {
        defaults: Some(defaults::storage::class),
        validation: Validation::New(validation::storage::class),
        update_validation: Some(validation::storage::class_update),
        answers_with_deleted: true,
        warnings: Some(validation::warnings::class),
        columns: "Name:name|Provisioner|ReclaimPolicy|VolumeBindingMode|AllowVolumeExpansion|Age",
        cells: table::other::storage_class,
    }
    VOLUME_ATTACHMENTS {
        initial_status: InitialStatus::Empty,
        validation: Validation::Each(validation::storage::attachment),
        update_validation: Some(validation::storage::attachment_update),
        answers_with_deleted: true,
        columns: "Name:name|Attacher:name|PV|Node|Attached:boolean|Age",
        cells: table::other::volume_attachment,
    }
    VOLUME_ATTRIBUTES_CLASSES {
        validation: Validation::Each(validation::storage::attributes_class),
        update_validation: Some(validation::storage::attributes_class_update),
        answers_with_deleted: true,
        columns: "Name:name|DriverName|Age",
        cells: table::other::volume_attributes_class,
    }
    DEVICE_CLASSES {
        validation: Validation::Each(validation::devices::class),
        generation: Some(strategy::spec),
        answers_with_deleted: true,
    }
    RESOURCE_CLAIMS {
        initial_status: InitialStatus::Empty,
        defaults: Some(defaults::devices::claim),
        validation: Validation::New(validation::devices::claim),
        update_validation: Some(validation::devices::claim_update),
        quota: Some(Quota::Own { counts: usage::resource_claims_count, usage: usage::resource_claim }),
        answers_with_deleted: true,
        columns: "Name:name|State|Age",
        cells: table::other::resource_claim,
    }
    RESOURCE_CLAIM_TEMPLATES {
        defaults: Some(defaults::devices::template),
        validation: Validation::Each(validation::devices::template),
        update_validation: Some(validation::devices::template_update),
        answers_with_deleted: true,
    }
    RESOURCE_SLICES {
        validation: Validation::Each(validation::devices::slice),
        update_validation: Some(validation::devices::slice_update),
        generation: Some(strategy::spec),
        answers_with_deleted: true,
        warnings: Some(validation::warnings::resource_slice),
        fields: &[Field::at("spec.driver"), Field::at("spec.nodeName")],
        columns: "Name:name|Node|Driver|Pool|Age",
        cells: table::other::resource_slice,
    }
}
