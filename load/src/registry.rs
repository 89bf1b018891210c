//! The load test of registries that is made from flags: registrations, enumerations and multicasts, alone or mixed.
//!
//! It is a scenario like those in files, written here because its numbers follow from each other: a mix with fan-out has so many devices
//! registered and subscribed, one without has a subscriber for each device that may be registered while it runs.

use clap::{Args, ValueEnum};

use crate::scenario::{Over, Registry, Scenario, Slot};

/// Subscribers at most.
const MOST_SUBSCRIBERS: u64 = 20_000;

/// Connections that they share at most.
const CONNECTIONS: u64 = 30;

/// Connections of the load. The warm-up is a closed loop: of more users who send, each message would wait for those of the others.
const USERS: u64 = 50;
const USERS_OF_A_MIX: u64 = 10;
const USERS_THAT_SEND: u64 = 5;

/// Devices that are enumerated.
const DEVICES: u64 = 1000;

/// To how many devices a message goes, unless a flag says otherwise.
const FAN_OUT: [u64; 3] = [100, 1000, 3000];

/// Shares of registrations, enumerations and multicasts in a mix, likewise; percent.
const SHARES: [f64; 3] = [50.0, 30.0, 20.0];

/// Requests a second, and seconds, unless flags say otherwise.
const RATE: f64 = 100.0;
const SECONDS: f64 = 60.0;

/// Requests before the window.
const WARM_UP: u64 = 100;

/// The longest time from the registration of devices to the window; seconds.
const TO_BEGIN: f64 = 30.0;

/// The requests of the load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Asked {
    /// New devices
    Register,
    /// All devices of 1000, or those of one tenant
    Enumerate,
    /// Messages to so many devices
    Multicast,
    /// All three
    #[default]
    Mixed,
}

/// The sign that a subscriber over NATS has a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Receipts {
    /// Somebody subscribed
    #[default]
    Interest,
    /// They reply
    Reply,
}

/// The numbers of a load test of registries.
#[derive(Args, Clone, Debug)]
pub struct Shape {
    /// The requests to send
    #[arg(value_enum, default_value_t)]
    pub asked: Asked,
    /// Messages come over JetStream, in the NATS of --nats-servers
    #[arg(long, requires = "nats_servers")]
    pub jetstream: bool,
    /// The sign that a subscriber over NATS has a message
    #[arg(long, value_enum, default_value_t, requires = "nats_servers", conflicts_with = "jetstream")]
    pub nats_receipts: Receipts,
    /// The time to live of a registration, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..=31_536_000))]
    pub ttl: u32,
    /// To how many devices a message goes (of each tenant); several are a run each; mixed without it: to all that are registered by then
    #[arg(long, value_name = "NUMBER", value_delimiter = ',', value_parser = clap::value_parser!(u64).range(1..=20_000))]
    pub fan_out: Vec<u64>,
    /// The share of registrations in a mix, in percent
    #[arg(long, value_name = "PERCENT")]
    pub register_pct: Option<f64>,
    /// The share of enumerations in a mix, in percent
    #[arg(long, value_name = "PERCENT")]
    pub enumerate_pct: Option<f64>,
    /// The share of multicasts in a mix, in percent
    #[arg(long, value_name = "PERCENT")]
    pub multicast_pct: Option<f64>,
    /// Tenants, of one of which each enumeration and each message is
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub tenants: u64,
}

/// Shares of a mix, in percent.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Shares {
    register: f64,
    enumerate: f64,
    multicast: f64,
}

/// The numbers that follow from others.
struct Sizes {
    rate: f64,
    seconds: f64,
    /// Devices that are registered before.
    devices: u64,
    subscribers: u64,
    /// To how many a message goes; none where it goes to all.
    fan_out: Vec<u64>,
}

impl Shape {
    /// The scenario, at a rate and for a time, in the slot of the servers that are named.
    ///
    /// # Errors
    /// Numbers that cannot be meant.
    pub fn scenario(
        &self,
        rate: Option<f64>,
        seconds: Option<f64>,
        has_nats: bool,
        has_redis: bool,
    ) -> Result<Scenario, String> {
        let shares = self.shares()?;
        let sizes = self.sizes(shares, rate.unwrap_or(RATE), seconds.unwrap_or(SECONDS))?;
        let over = match (has_nats, self.jetstream) {
            (false, _) => (shares.multicast > 0.0).then_some(Over::Sse),
            (true, false) => Some(Over::Nats),
            (true, true) => Some(Over::Jetstream),
        };
        let registry = if has_redis { Registry::Redis } else { Registry::Strata };
        let slot = Slot { registry, over, replies: over == Some(Over::Nats) && self.nats_receipts == Receipts::Reply };
        let text = self.text(shares, &sizes, slot);
        Scenario::parse("load-registry", &text).map_err(|refusal| refusal.to_string())
    }

    /// # Errors
    /// They are not 100 together, or there is no mix.
    fn shares(&self) -> Result<Shares, String> {
        let given = [self.register_pct, self.enumerate_pct, self.multicast_pct];
        let [register, enumerate, multicast] = match self.asked {
            Asked::Register => [100.0, 0.0, 0.0],
            Asked::Enumerate => [0.0, 100.0, 0.0],
            Asked::Multicast => [0.0, 0.0, 100.0],
            Asked::Mixed => [0, 1, 2].map(|at| given[at].unwrap_or(SHARES[at])),
        };
        let (all, sum) = ([register, enumerate, multicast], register + enumerate + multicast);
        match () {
            () if self.asked != Asked::Mixed && given.iter().any(Option::is_some) => {
                Err("--register-pct, --enumerate-pct, --multicast-pct: shares are those of a mix (mixed)".to_owned())
            }
            () if !self.fan_out.is_empty() && multicast == 0.0 => Err("--fan-out: no message is sent".to_owned()),
            () if !all.iter().all(|share| (0.0..=100.0).contains(share)) || (sum - 100.0).abs() > 1e-6 => Err(format!(
                "--register-pct {register}, --enumerate-pct {enumerate}, --multicast-pct {multicast}: they are {sum} together, not 100"
            )),
            () => Ok(Shares { register, enumerate, multicast }),
        }
    }

    /// # Errors
    /// More subscribers than there may be, or devices that would not be there to the end.
    fn sizes(&self, shares: Shares, rate: f64, seconds: f64) -> Result<Sizes, String> {
        let fan_out = match self.asked {
            Asked::Multicast if self.fan_out.is_empty() => FAN_OUT.to_vec(),
            _ => self.fan_out.clone(),
        };
        let sends = shares.multicast > 0.0;
        let grows = sends && fan_out.is_empty();
        let devices = match fan_out.iter().max() {
            Some(most) => most * self.tenants,
            None if self.asked == Asked::Enumerate => DEVICES.div_ceil(self.tenants) * self.tenants,
            None => self.tenants,
        };
        let registered = rate * seconds * shares.register / 100.0;
        // Six standard deviations above the mean: so many never come.
        let most = registered + 6.0 * registered.sqrt() + WARM_UP as f64;
        let subscribers = if grows { devices.saturating_add(most.ceil() as u64) } else { devices };
        let is_to_stay = self.asked == Asked::Enumerate || !fan_out.is_empty();
        match () {
            () if sends && subscribers > MOST_SUBSCRIBERS => Err(format!(
                "{subscribers} devices would each have a subscriber, and these are {MOST_SUBSCRIBERS} at most: fewer by -r, -d, \
                 --register-pct, --tenants or --fan-out"
            )),
            () if is_to_stay && f64::from(self.ttl) < seconds + TO_BEGIN => Err(format!(
                "--ttl {}: the devices are registered before, and have to be there to the end: at least {}",
                self.ttl,
                seconds + TO_BEGIN
            )),
            () => Ok(Sizes { rate, seconds, devices, subscribers, fan_out }),
        }
    }

    /// The text of the scenario.
    fn text(&self, shares: Shares, sizes: &Sizes, slot: Slot) -> String {
        let Sizes { rate, seconds, devices, subscribers, fan_out } = sizes;
        let Self { ttl, tenants, .. } = self;
        let asked = format!("{:?}", self.asked).to_lowercase();
        let row =
            format!(r#""tenant":"t{{n%{tenants}}}","rank":{{n/{tenants}}},"status":"online","text":"{{filler:130}}""#);
        let mut text = format!(
            r#"name = "load-registry-{asked}"
about = "registrations with a time to live, found by a query and sent messages by it, as flags say"
tls = false
effects = [{effects}]

[data]
table = "Device"
rows = {devices}
row = '{{{{"id":"d{{n}}",{row}}}}}'
schema = '''
type Device @table(expiration: {ttl}) @multicast @export {{
    id: ID! @primaryKey
    tenant: String @indexed
    rank: Int @indexed
    status: String @indexed
    text: String
}}
'''

[load]
connections = {users}
schedule = {{ shape = "constant", rate = {rate:?}, seconds = {seconds:?} }}
warm_up_requests = {WARM_UP}

[sweep]
slots = ["{slot}"]
fan_out = {fan_out:?}

[[objectives]]
bound = {{ failures_at_most = 0.0 }}
"#,
            effects = effects(shares),
            users = match self.asked {
                Asked::Register | Asked::Enumerate => USERS,
                Asked::Mixed => USERS_OF_A_MIX,
                Asked::Multicast => USERS_THAT_SEND,
            },
        );
        if shares.multicast > 0.0 {
            let connections = subscribers.min(&CONNECTIONS);
            text += &format!(
                r#"
[[subscribers]]
count = {subscribers}
path = "/Device/d{{n}}?stream=sse"
connections = {connections}
call = "/message/call"
each = {{ "/message/tenant" = "t{{n%{tenants}}}" }}
"#
            );
        }
        for operation in self.operations(shares, sizes, &row) {
            text += &operation;
        }
        text
    }

    /// The operations that have a share.
    fn operations(&self, shares: Shares, sizes: &Sizes, row: &str) -> Vec<String> {
        let tenants = self.tenants;
        let (who, has) = match tenants {
            1 => ("status==online".to_owned(), r#""/status" = "online""#.to_owned()),
            _ => (format!("tenant==t{{n%{tenants}}}"), format!(r#""/tenant" = "t{{n%{tenants}}}""#)),
        };
        let rows = match self.asked {
            Asked::Enumerate => format!("rows = {}, ", sizes.devices / tenants),
            _ => String::new(),
        };
        let (to, targets) = match (sizes.fan_out.is_empty(), tenants) {
            (true, _) => (who.clone(), ""),
            (false, 1) => ("rank=lt={fan_out}".to_owned(), r#"has = { "/targets" = "{fan_out}" }, "#),
            (false, _) => (format!("{who}&rank=lt={{fan_out}}"), r#"has = { "/targets" = "{fan_out}" }, "#),
        };
        let operations = [
            (
                shares.register,
                format!(
                    r#"name = "register"
method = "PUT"
path = "/Device/d{{n}}"
row = "new"
body = '{{{{{row}}}}}'
expect = {{ status = 201, has = {{ "/id" = "d{{n}}", "/tenant" = "t{{n%{tenants}}}" }} }}"#
                ),
            ),
            (
                shares.enumerate,
                format!(
                    r#"name = "enumerate"
method = "GET"
class = "list"
path = "/Device?{who}"
expect = {{ status = 200, {rows}each = {{ {has} }} }}"#
                ),
            ),
            (
                shares.multicast,
                format!(
                    r#"name = "multicast"
method = "POST"
path = "/Device/multicast?{to}"
body = '{{{{"call":{{call}},"tenant":"t{{n%{tenants}}}","text":"{{filler:100}}"}}}}'
expect = {{ status = 200, {targets}equal = [["/targets", "/delivered"]] }}"#
                ),
            ),
        ];
        let operations = operations.into_iter().filter(|(share, _)| *share > 0.0);
        operations.map(|(share, text)| format!("\n[[operations]]\nweight = {share:?}\n{text}\n")).collect()
    }
}

/// Returns what the counters of each registry must show of the operations with a share. A multicast finds its targets in the registry, too.
fn effects(shares: Shares) -> String {
    let [register, enumerate, multicast] =
        [shares.register, shares.enumerate, shares.multicast].map(|share| share > 0.0);
    let named = |operations: &[(&str, bool)]| {
        let names = operations.iter().filter(|(_, is_there)| *is_there).map(|(name, _)| format!("{name:?}"));
        names.collect::<Vec<_>>().join(", ")
    };
    let (register, enumerate, multicast) = (("register", register), ("enumerate", enumerate), ("multicast", multicast));
    let rows = [
        ("writes", named(&[register, multicast]), r#"at_least = true, registry = "strata""#),
        ("scans", named(&[enumerate]), r#"at_least = true, registry = "strata""#),
        ("redis.calls", named(&[register, enumerate, multicast]), r#"at_least = true, registry = "redis""#),
        ("multicast.messages", named(&[multicast]), "at_least = false"),
    ];
    let rows = rows.iter().filter(|(_, operations, _)| !operations.is_empty());
    let row = |(counter, operations, more): &(&str, String, &str)| {
        format!(r#"{{ counter = "{counter}", operations = [{operations}], each = 1.0, {more} }}"#)
    };
    rows.map(row).collect::<Vec<_>>().join(", ")
}
