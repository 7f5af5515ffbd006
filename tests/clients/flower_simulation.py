"""Flower simulates federated learning on a pool of Ray actors, each of which plays one client at a time.

Needs: flwr==1.42.0

Prints:

    round 1: 4 clients trained, the mean of the weights is 1.5
    round 1: the clients report a loss of 1.5
    round 2: 4 clients trained, the mean of the weights is 3.0
    round 2: the clients report a loss of 3.0
    the actors that played the clients: {'ClientAppActor': 2}
    client 3 fails: 1 failure
"""

import logging
from collections import Counter

import numpy as np
import ray
from flwr.client import ClientApp, NumPyClient
from flwr.common import ndarrays_to_parameters, parameters_to_ndarrays
from flwr.server import ServerApp, ServerAppComponents, ServerConfig
from flwr.server.strategy import FedAvg
from flwr.simulation import run_simulation

RESOURCES = {"init_args": {"num_cpus": 2, "log_to_driver": False}, "client_resources": {"num_cpus": 1, "num_gpus": 0.0}}
actors = Counter()


class Client(NumPyClient):
    """A client whose training adds the client's number to the weights."""

    def __init__(self, number, fails):
        self.number, self.fails = number, fails

    def fit(self, parameters, config):
        if self.fails:
            raise ValueError("no training today")
        return [parameters[0] + self.number], 1, {}

    def evaluate(self, parameters, config):
        return float(parameters[0][0]), 1, {}


class Strategy(FedAvg):
    """Federated averaging that prints its steps."""

    def aggregate_fit(self, server_round, results, failures):
        if failures:
            print("client 3 fails:", len(failures), "failure")
            return None, {}
        parameters, metrics = super().aggregate_fit(server_round, results, failures)
        mean = parameters_to_ndarrays(parameters)[0][0]
        print(f"round {server_round}: {len(results)} clients trained, the mean of the weights is {mean}")
        return parameters, metrics

    def aggregate_evaluate(self, server_round, results, failures):
        loss, metrics = super().aggregate_evaluate(server_round, results, failures)
        print(f"round {server_round}: the clients report a loss of {loss}")
        if server_round == 2:
            actors.update(
                row["ActorClassName"] for row in ray._private.state.actors().values() if row["State"] == "ALIVE"
            )
        return loss, metrics


def simulate(rounds, last_fails):
    def server(context):
        start = ndarrays_to_parameters([np.zeros(2)])
        strategy = Strategy(initial_parameters=start, fraction_evaluate=0.0 if last_fails else 1.0)
        return ServerAppComponents(strategy=strategy, config=ServerConfig(num_rounds=rounds))

    def client(context):
        number = context.node_config["partition-id"]
        return Client(number, last_fails and number == 3).to_client()

    run_simulation(ServerApp(server_fn=server), ClientApp(client_fn=client), num_supernodes=4, backend_config=RESOURCES)


logging.disable(logging.CRITICAL)
simulate(2, last_fails=False)
print("the actors that played the clients:", dict(actors))
simulate(1, last_fails=True)
assert not ray.is_initialized()
